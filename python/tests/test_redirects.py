"""Reads that the server sends on to its blob store (PAWL_READS=redirect), and TLS."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import pathlib
import ssl
import subprocess
import tempfile
import threading
from typing import Any, Dict, List, Type

import pawl
from tests.rig import Case

_BYTES = bytes(range(256)) * 4096


class Quiet(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass

    def reply(self, status: int, headers: Dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Store(Quiet):
    """A blob store: it knows the object by another tag, and breaks the first transfer off in the middle."""

    seen: List[Dict[str, str]] = []
    answer = 0  # a status that it gives instead

    def do_GET(self) -> None:
        self.seen.append(dict(self.headers.items()))
        if self.answer:
            self.reply(self.answer, {}, b"<Error>")
        elif "Range" in self.headers:
            start = int(self.headers["Range"][len("bytes="):-1])
            self.reply(206, {"ETag": '"store-2"', "Content-Range": f"bytes {start}-{len(_BYTES) - 1}/{len(_BYTES)}"}, _BYTES[start:])
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(_BYTES)))
            self.end_headers()
            self.wfile.write(_BYTES[: len(_BYTES) // 2])
            self.close_connection = True


class Front(Quiet):
    """A server that redirects reads of files to the store."""

    store = ""

    def do_GET(self) -> None:
        digest = hashlib.sha256(_BYTES)
        if "/files/" in self.path:
            self.reply(307, {"Location": self.store + "/object?signed=canary", "ETag": f'"{digest.hexdigest()}"',
                             "Repr-Digest": f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"})
            return
        self.reply(200, {"Content-Type": "application/json"}, json.dumps({
            "key": "k", "token": 1, "revision": 1, "manifest_digest": "0" * 64, "files": 1, "bytes": len(_BYTES), "primary": "out",
            "published_at": "2026-11-29T12:00:00.000Z", "publisher": "x"}).encode())


class Redirects(Case):
    def serve(self, kind: Type[Quiet], **values: Any) -> http.server.ThreadingHTTPServer:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (kind,), values))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        return server

    def test_reads_are_sent_on_to_the_store(self) -> None:
        """They are checked by what the server said, go on after a break, and take no secret along."""
        seen: List[Dict[str, str]] = []
        store = "http://127.0.0.1:%d" % self.serve(Store, seen=seen).server_address[1]
        front = self.serve(Front, store=store)
        client = self.enter(pawl.Client("http://127.0.0.1:%d" % front.server_address[1], "canary"))
        with client.open("k") as file:
            self.assertEqual((file.size, file.sha256), (len(_BYTES), hashlib.sha256(_BYTES).hexdigest()))
            self.assertTrue(file.read() == _BYTES)
        self.assertEqual([request.get("Range") for request in seen], [None, f"bytes={len(_BYTES) // 2}-"])
        for request in seen:
            self.assertNotIn("canary", str(request))

    def test_a_store_that_refuses(self) -> None:
        store = "http://127.0.0.1:%d" % self.serve(Store, answer=403).server_address[1]
        client = self.enter(pawl.Client("http://127.0.0.1:%d" % self.serve(Front, store=store).server_address[1]))
        with self.assertRaises(pawl.Denied) as caught:
            client.open("k")
        self.assertIn("blob store", str(caught.exception))
        self.assertNotIn("canary", str(caught.exception))

    def test_tls(self) -> None:
        """Certificates are checked, and connections are kept, as without it."""
        folder = pathlib.Path(self.enter(tempfile.TemporaryDirectory()))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key", "-out", folder / "cert"], check=True, capture_output=True)
        front = self.serve(Front)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert", folder / "key")
        front.socket = context.wrap_socket(front.socket, server_side=True)
        url = "https://127.0.0.1:%d" % front.server_address[1]
        trusting = self.enter(pawl.Client(url, context=ssl.create_default_context(cafile=str(folder / "cert"))))
        for _ in range(2):
            found = trusting.current("k")
            assert found is not None
            self.assertEqual(found.primary, "out")
        with self.assertRaisesRegex(pawl.Unreachable, "certificate verify failed") as caught:
            self.enter(pawl.Client(url)).current("k")
        self.assertFalse(caught.exception.retryable)
