"""Files: what goes in comes out, names, folders, and memory."""

from __future__ import annotations

import concurrent.futures
import hashlib
import io
import os
import pathlib
import tempfile
import tracemalloc
import unicodedata

import pawl
from tests.rig import Case

_HARD_NAMES = ["a+b.png", "a b.png", "a%2Bb.png", "100%.png", "q?x=1#y.png", "semi;colon&amp.png", "\U0001f984.png", "-/dash", "ä/ö.txt"]


class RoundTrip(Case):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.enter(tempfile.TemporaryDirectory()))

    def test_ways_to_put(self) -> None:
        """A path, an open file from where it stands, bytes, and a pipe."""
        file = self.folder / "report.csv"
        file.write_bytes(b"a,b\n1,2\n")
        read_end, write_end = os.pipe()
        os.write(write_end, b"piped")
        os.close(write_end)
        with self.client.lease(self.key, 30) as lease:
            sent = lease.put(file)
            self.assertEqual((sent.path, sent.size, sent.identical), ("report.csv", 8, False))
            self.assertTrue(lease.put(str(file)).identical)
            with open(file, "rb") as source:
                source.seek(4)
                lease.put(source, "rest.csv")
            with os.fdopen(read_end, "rb") as pipe:
                lease.put(pipe, "piped", "text/x-piped")
            lease.put_bytes(b"", "empty")
            lease.put_bytes(b"gone", "gone")
            lease.delete("gone")
            receipt = lease.publish(primary="report.csv", expect=["rest.csv"], metadata={"rows": "1"}, source_revision=7)
        self.assertEqual((receipt.files, receipt.bytes, receipt.metadata, receipt.source_revision), (4, 17, {"rows": "1"}, 7))
        listed = {f.path: f for f in self.client.files(self.key)}
        self.assertEqual(sorted(listed), ["empty", "piped", "report.csv", "rest.csv"])
        self.assertEqual(listed["piped"].content_type, "text/x-piped")
        self.assertEqual(pawl.manifest_digest(listed.values()), receipt.manifest_digest)
        for path, data in (("empty", b""), ("piped", b"piped"), ("rest.csv", b"1,2\n"), (None, b"a,b\n1,2\n")):
            with self.client.open(self.key, path) as published:
                self.assertEqual(published.read(), data)

    def test_sizes(self) -> None:
        """Around the pieces that are sent at once, by known and by unknown length."""
        for size in (0, 1, (256 << 10) - 1, 256 << 10, (256 << 10) + 1, (512 << 10) + 3):
            data = os.urandom(size)
            with self.client.lease(f"{self.key}/{size}", 30) as lease:
                lease.put_bytes(data, "known")
                read_end, write_end = os.pipe()
                with concurrent.futures.ThreadPoolExecutor(1) as pool, os.fdopen(read_end, "rb") as pipe, os.fdopen(write_end, "wb") as sink:
                    pool.submit(lambda sink=sink, data=data: (sink.write(data), sink.close()))
                    lease.put(pipe, "unknown")
                lease.publish()
            for path in ("known", "unknown"):
                with self.client.open(lease.key, path) as file:
                    self.assertEqual(file.size, size)
                    self.assertTrue(file.read() == data, (size, path))

    def test_mistakes_are_told(self) -> None:
        with self.client.lease(self.key, 30) as lease:
            with self.assertRaisesRegex(TypeError, "rb"):
                lease.put(io.StringIO("text"), "out")  # type: ignore[arg-type]
            with self.assertRaisesRegex(pawl.Invalid, "put_tree"):
                lease.put(self.folder)
            with self.assertRaisesRegex(pawl.Invalid, "name: must be given"):
                lease.put(io.BytesIO(b""))
            with self.assertRaises(FileNotFoundError):
                lease.put(self.folder / "nothing")
            with self.assertRaises(pawl.Incomplete) as caught:
                lease.publish(expect=["frame.[1-2].exr"])
            self.assertEqual(caught.exception.missing, ["frame.1.exr", "frame.2.exr"])
        with self.assertRaisesRegex(pawl.Invalid, "ttl"):
            self.client.lease(self.key, -1).acquire()
        with self.assertRaisesRegex(pawl.Invalid, "PAWL_KEY"):
            self.client.from_env()

    def test_conditions(self) -> None:
        first = self.publish(b"1", create_only=True)
        with self.assertRaises(pawl.Refused) as caught:
            self.publish(b"2", create_only=True)
        self.assertEqual(caught.exception.code, "precondition-failed")
        self.publish(b"3", if_match=first)
        with self.assertRaises(pawl.Refused):
            self.publish(b"4", if_match="1.1")
        with self.client.lease(self.key, 30) as lease:
            lease.put_bytes(b"more", "more")
            receipt = lease.publish(reuse_from=3, primary="out", release=True)
        self.assertEqual((receipt.files, receipt.reused_files, receipt.previous), (2, 1, pawl.Version(3, 1)))

    def test_progressive(self) -> None:
        """A generation that isn't final can be published again; every revision stays readable."""
        with self.client.lease(self.key, 30) as lease:
            versions = []
            for text in (b"X", b"Y", b"X"):
                lease.put_bytes(text, "out")
                versions.append(lease.publish(final=False).version)
        self.assertEqual([str(v) for v in versions], ["1.1", "1.2", "1.3"])
        for version, text in zip(versions, (b"X", b"Y", b"X")):
            with self.client.open(self.key, "out", version=version) as file:
                self.assertEqual(file.read(), text)

    def test_readers(self) -> None:
        self.assertIsNone(self.client.current(self.key))
        self.assertIsNone(self.client.wait_for_change(self.key, timeout=0.05))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(self.client.wait_for_change, self.key, None, 30)
            receipt = self.publish(b"1")
            found = waiting.result(30)
        assert found is not None
        self.assertEqual((found, found.version), (self.client.current(self.key), receipt.version))
        self.assertIsNone(self.client.wait_for_change(self.key, receipt.version, timeout=0.3))
        resolved = self.client.resolve([self.key, self.key + "/no"])
        self.assertEqual([(r.found, r.token) for r in resolved], [(True, 1), (False, 0)])
        self.assertEqual([p.key for p in self.client.pointers(self.key)], [self.key])
        target = self.folder / "out"
        self.client.download(self.key, target)
        self.assertEqual(target.read_bytes(), b"1")
        with self.assertRaises(pawl.NotFound):
            self.client.download(self.key + "/no", target)
        self.assertEqual((target.read_bytes(), os.listdir(self.folder)), (b"1", ["out"]))

    def test_memory_stays_flat(self) -> None:
        """256 MiB go up and come down within a few pieces of memory."""
        file, size = self.folder / "large", 256 << 20
        with open(file, "wb") as sink:
            sink.truncate(size)
        tracemalloc.start()
        try:
            with self.client.lease(self.key, 30) as lease:
                lease.put(file)
                lease.publish()
            self.client.download(self.key, self.folder / "copy")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        self.assertEqual((self.folder / "copy").stat().st_size, size)
        self.assertLess(peak, 8 << 20)

    def test_sixteen_threads_under_one_lease(self) -> None:
        with self.client.lease(self.key, 30) as lease:
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                names = [f"{n}.bin" for n in range(160)]
                sent = list(pool.map(lambda name: lease.put_bytes(name.encode() * 1000, name), names))
            self.assertEqual([s.path for s in sent], names)
            self.assertEqual(lease.publish().files, 160)
        for file in self.client.files(self.key):
            self.assertEqual(file.sha256, hashlib.sha256(file.path.encode() * 1000).hexdigest())


class Names(Case):
    def test_case_32_nfd_is_sent_as_nfc(self) -> None:
        nfc = "caf\u00e9.png"
        nfd = unicodedata.normalize("NFD", nfc)
        self.assertNotEqual(nfc, nfd)
        self.publish(b"1", nfd, key=f"{self.key}/{nfd}")
        pointer = self.client.current(f"{self.key}/{nfc}")
        assert pointer is not None
        self.assertEqual((pointer.key, pointer.primary), (f"{self.key}/{nfc}", nfc))
        self.assertEqual(self.read(f"{self.key}/{nfd}"), b"1")

    def test_case_33_names_round_trip(self) -> None:
        with self.client.lease(self.key, 30) as lease:
            for name in _HARD_NAMES:
                lease.put_bytes(name.encode(), name)
            lease.publish()
        self.assertEqual(sorted(f.path for f in self.client.files(self.key)), sorted(_HARD_NAMES))
        for name in _HARD_NAMES:
            with self.client.open(self.key, name) as file:
                self.assertEqual(file.read(), name.encode())
        for name in _HARD_NAMES:
            if not name.startswith("-/"):
                self.publish(name.encode(), key=f"{self.key}/{name}")
                self.assertEqual(self.read(f"{self.key}/{name}"), name.encode())

    def test_bad_names_are_refused_with_the_cure(self) -> None:
        for name, cure in (("", "give 1 to 400"), ("/a", "slash"), ("a/../b", "relative"), ("a\\b", "use /"), ("a\nb", "control"), ("a/-/lease", "-"),
                           ("a\udc80", "rename"), ("a\u202eb", "bidi"), ("x" * 201, "200 bytes"), ("a\ufffd", "original")):
            with self.subTest(name), self.assertRaisesRegex(pawl.Invalid, cure) as caught:
                self.client.current(name)
            self.assertEqual(caught.exception.code, "invalid-key")
