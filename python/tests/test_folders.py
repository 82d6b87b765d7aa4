"""Sets of files: folders that are uploaded and fetched whole."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import pathlib
import tempfile
import threading
import unicodedata
import urllib.parse
from typing import Any, Dict, List
from unittest import mock

import pawl
from tests.rig import Case


class Folders(Case):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.enter(tempfile.TemporaryDirectory()))

    def write(self, *names: str) -> pathlib.Path:
        root = self.folder / "frames"
        for name in names:
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(name.encode())
        return root

    def test_there_and_back(self) -> None:
        names = ["beauty.1.exr", "beauty.2.exr", "deep/a/b.txt", unicodedata.normalize("NFD", "é.txt")]
        root = self.write(*names)
        (root / "link.exr").symlink_to("beauty.1.exr")
        with self.client.lease(self.key, 30) as lease:
            sent = lease.put_tree(root)
            self.assertEqual([s.path for s in sent], ["beauty.1.exr", "beauty.2.exr", "deep/a/b.txt", "link.exr", "é.txt"])
            self.assertTrue(all(s.identical for s in lease.put_tree(root)))
            receipt = lease.publish(manifest_digest=pawl.manifest_digest(sent))
        target = self.folder / "fetched"
        pointer = self.client.download_tree(self.key, target)
        self.assertEqual(pointer.version, receipt.version)
        fetched = {str(p.relative_to(target)): p.read_bytes() for p in target.rglob("*") if p.is_file()}
        expected = {unicodedata.normalize("NFC", name): name.encode() for name in names}
        self.assertEqual(fetched, {**expected, "link.exr": b"beauty.1.exr"})
        self.assertEqual(sorted(os.listdir(self.folder)), ["fetched", "frames"])
        with self.assertRaisesRegex(pawl.Invalid, "is there already"):
            self.client.download_tree(self.key, target)
        with self.assertRaises(pawl.Invalid):  # a set of several files has no primary one
            self.client.open(self.key)

    def test_under_a_prefix(self) -> None:
        root = self.write("a")
        with self.client.lease(self.key, 30) as lease:
            self.assertEqual([s.path for s in lease.put_tree(root, "take/2/")], ["take/2/a"])

    def test_what_cant_be_published_is_told_before_a_byte_is_sent(self) -> None:
        root = self.write("good", "x" * 201, "back\\slash", unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é"))
        (root / "out").symlink_to("/etc/passwd")
        (root / "broken").symlink_to("nowhere")
        os.mkfifo(root / "pipe")
        with self.client.lease(self.key, 30) as lease:
            with self.assertRaises(pawl.Invalid) as caught:
                lease.put_tree(root)
            for text in ("'out' is a link", "'broken' is a link", "'pipe' is no file", "200 bytes", "backslash", "one name in NFC"):
                self.assertIn(text, str(caught.exception))
            with self.assertRaises(pawl.Incomplete):
                lease.publish()  # nothing was uploaded
            with self.assertRaisesRegex(pawl.Invalid, "holds no file"):
                lease.put_tree(self.enter(tempfile.TemporaryDirectory()))
            with self.assertRaises(FileNotFoundError):
                lease.put_tree(self.folder / "nothing")


class HostileServer(http.server.BaseHTTPRequestHandler):
    """A server whose manifest was made to write elsewhere."""

    paths: List[str] = []
    content = b"evil"

    def do_GET(self) -> None:
        files: List[Dict[str, Any]] = [
            {"path": p, "size": 4, "sha256": hashlib.sha256(b"evil").hexdigest(), "content_type": "text/plain"} for p in sorted(self.paths)]
        asked = urllib.parse.urlsplit(self.path).path
        if asked.endswith("/files"):
            body = json.dumps({"files": files}).encode()
        elif "/files/" in asked:
            body = self.content
        else:
            digest = pawl.manifest_digest(pawl.FileInfo(**f) for f in files)
            body = json.dumps({"key": "k", "token": 1, "revision": 1, "manifest_digest": digest, "files": len(files), "bytes": 4,
                               "published_at": "2026-11-29T12:00:00.000Z", "publisher": "x"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"%s"' % hashlib.sha256(b"evil").hexdigest())
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class Hostile(Case):
    def serve(self, *paths: str, content: bytes = b"evil") -> pawl.Client:
        handler = type("Handler", (HostileServer,), {"paths": list(paths), "content": content})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        return self.enter(pawl.Client("http://127.0.0.1:%d" % server.server_address[1]))

    def test_case_36_names_that_lead_out(self) -> None:
        """They are refused, and nothing is written, neither outside nor inside."""
        with tempfile.TemporaryDirectory() as outer:
            for path in ("../../evil", "/etc/evil", "a/../../evil", "C:\\evil", "..\\evil", "evil\0", "a//evil", "./evil", ""):
                with self.subTest(path), self.assertRaises(pawl.Invalid) as caught:
                    self.serve("good", path).download_tree("k", os.path.join(outer, "in", "target"))
                self.assertIn("can't be a local file name", str(caught.exception))
                self.assertEqual(os.listdir(outer), [])
            self.serve("good", "in/good").download_tree("k", os.path.join(outer, "target"))
            self.assertEqual(sorted(os.listdir(os.path.join(outer, "target"))), ["good", "in"])

    def test_other_bytes_than_published(self) -> None:
        """Their last byte isn't handed out, and no file and no folder appears."""
        with tempfile.TemporaryDirectory() as outer:
            for content in (b"EVIL", b"evil, and more"):
                client = self.serve("good", content=content)
                with self.assertRaises(pawl.Mismatch):
                    client.download_tree("k", os.path.join(outer, "target"))
                with self.assertRaises(pawl.Mismatch):
                    client.download("k", os.path.join(outer, "target"), "good")
                with client.open("k", "good") as file, self.assertRaises(pawl.Mismatch):
                    file.read()
                self.assertEqual(os.listdir(outer), [])

    def test_a_file_beside_its_folder(self) -> None:
        """A store keeps "a" beside "a/b", which no disk does: it is refused before anything is fetched."""
        with tempfile.TemporaryDirectory() as outer:
            for paths in (("a", "a/b"), ("tileset", "tileset-2", "tileset.json", "tileset.json.gz", "tileset/0.glb")):
                client = self.serve(*paths, content=b"never asked for, else it were a Mismatch")
                with self.assertRaisesRegex(pawl.Invalid, f"'{paths[0]}' and '{paths[-1]}' can't both be"):
                    client.download_tree("k", os.path.join(outer, "target"))
                self.assertEqual(os.listdir(outer), [])

    def test_colons(self) -> None:
        """They are letters like any other, but on Windows, where they name drives and streams."""
        with tempfile.TemporaryDirectory() as outer:
            self.serve("a:b", "x/12:30").download_tree("k", os.path.join(outer, "target"))
            self.assertEqual(sorted(os.listdir(os.path.join(outer, "target"))), ["a:b", "x"])
        with mock.patch("os.name", "nt"):
            for path in ("c:evil", "C:/evil", "file:stream"):
                with self.subTest(path), self.assertRaises(pawl.Invalid):
                    pawl._local_name(path)
