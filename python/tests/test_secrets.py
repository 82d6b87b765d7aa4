"""Errors cross pickling unchanged, and secrets show nowhere."""

from __future__ import annotations

import http.client
import json
import logging
import os
import pickle
import re
import subprocess
import sys
import tempfile
import traceback
from typing import Callable, List, Type
from unittest import mock

import pawl
from tests.rig import Case


class Secrets(Case):
    def test_case_50_lease_id_and_credential_show_nowhere(self) -> None:
        """Not in repr, str and format, not in errors and their tracebacks with all local variables, not in logs, and they can't be pickled."""
        credential = "canary-credential"
        records: List[str] = []

        class Handler(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                records.append(self.format(record))

        handler = Handler()
        logger = logging.getLogger("pawl")
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        self.addCleanup(logger.setLevel, logging.NOTSET)
        self.addCleanup(logger.removeHandler, handler)
        proxy = self.proxy()
        client = self.enter(pawl.Client(proxy.url, credential))
        shown: List[str] = []
        with client.lease(self.key, 0.3, holder="A") as lease:
            lease_id = lease.environment()["PAWL_LEASE_ID"]
            self.assertRegex(lease_id, "^[0-9a-f]{32}$")
            proxy.lose_answer(b"PUT ")
            lease.put_bytes(b"A", "out")
            proxy.cut_requests(b"PATCH ")
            lease.lost.wait(30)
            self.publish(b"B")
            try:
                lease.publish()
            except pawl.Fenced as error:
                told = traceback.TracebackException.from_exception(error, capture_locals=True)
                shown += [repr(frame.locals) for frame in told.stack if frame.filename != __file__]
                shown += [repr(error), str(error), repr(error.members), repr(pickle.loads(pickle.dumps(error)).__dict__)]
            else:
                self.fail("A isn't fenced")
            for thing in (lease, client, lease._id, lease.__dict__, client.__dict__):
                shown += [repr(thing), str(thing), f"{thing}", f"{thing!s:>9}"]
            for secret in (lease, client, lease._id):
                with self.assertRaisesRegex(TypeError, "can't be pickled"):
                    pickle.dumps(secret)
        self.assertIn("request_repeated", "".join(records))
        self.assertIn("renewal_failed", "".join(records))
        self.assertIn("'Pawl-Lease'", "".join(shown))  # the local variables are there
        for text in shown + records:
            self.assertNotIn(lease_id, text)
            self.assertNotIn(credential, text)
        self.assertTrue(any(lease_id.encode() in seen for seen in proxy.seen), "the lease_id isn't sent either")
        self.assertTrue(any(b"Authorization: Bearer " + credential.encode() in seen for seen in proxy.seen))

    def test_case_50_of_calls_that_fail(self) -> None:
        """A refused acquire, and requests that break while they are sent, have them in no local variable of the traceback's frames."""
        proxy = self.proxy()
        client = self.enter(pawl.Client(proxy.url, "canary-credential", retry_for=0))

        def shown(call: Callable[[], object]) -> str:
            try:
                call()
            except pawl.PawlError as error:
                told = traceback.TracebackException.from_exception(error, capture_locals=True)
                return "".join(told.format())  # causes and contexts as well
            raise AssertionError("it didn't fail")

        with self.client.lease(self.key, 30) as lease:
            text = shown(client.lease(self.key, 30).acquire)
            sent = re.findall(b'"lease_id": ?"([0-9a-f]{32})"', b"".join(proxy.seen))
            self.assertEqual(len(sent), 1)
            self.assertNotIn(sent[0].decode(), text)
            self.assertIn("lease_id", text)  # the local variables are there
            with mock.patch.dict(os.environ, lease.environment()):
                same = client.from_env()
            lease_id = lease.environment()["PAWL_LEASE_ID"]
            with mock.patch.object(http.client.HTTPConnection, "send", side_effect=ConnectionResetError("canary-cause")):
                calls: List[Callable[[], object]] = [same.publish, lambda: same.put_bytes(b"x", "out"), client.lease(self.key, 30).acquire]
                for call in calls:
                    text = shown(call)
                    self.assertIn("canary-cause", text)
                    self.assertNotIn(lease_id, text)
                    self.assertNotIn("canary-credential", text)

    def test_the_credential_comes_from_a_file(self) -> None:
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("from-a-file\n")
            file.flush()
            with mock.patch.dict(os.environ, {"PAWL_CREDENTIAL_FILE": file.name}):
                self.assertEqual(pawl.Client()._credential, "from-a-file")
            with mock.patch.dict(os.environ, {"PAWL_CREDENTIAL_FILE": file.name, "PAWL_CREDENTIAL": "given"}):
                self.assertEqual(pawl.Client()._credential, "given")
        with self.assertRaises(pawl.Invalid) as caught:
            pawl.Client(credential="two\r\nlines")
        self.assertNotIn("lines", str(caught.exception))

    def test_a_credential_file_that_is_replaced(self) -> None:
        """The next request has the new one; while the file is empty or away, the one from before."""
        proxy = self.proxy()
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "credential")

            def write(text: str) -> None:
                with open(file, "w", encoding="utf-8") as sink:
                    sink.write(text)

            write("canary-1\n")
            with mock.patch.dict(os.environ, {"PAWL_CREDENTIAL_FILE": file}):
                client = self.enter(pawl.Client(proxy.url))
            for text in ("canary-1", "canary-2\r\n", "", "two\nlines"):
                write(text)
                client.current(self.key)
            os.unlink(file)
            client.current(self.key)
        sent = re.findall(rb"Authorization: Bearer ([^\r]*)\r\n", b"".join(proxy.seen))
        self.assertEqual(sent, [b"canary-1"] + [b"canary-2"] * 4)


class Errors(Case):
    def test_every_kind_crosses_pickling(self) -> None:
        for kind in _kinds(pawl.PawlError):
            error = kind("some-code", "why", status=409, retryable=True, request_id="r1", members={"token": 3, "holder": "B", "lease_id": "secret"})
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), again.__dict__, str(again)), (kind, error.__dict__, "some-code: why"))
            self.assertNotIn("lease_id", again.members)

    def test_codes_of_newer_servers(self) -> None:
        """They keep their code, and their kind follows the status."""
        proxy = self.proxy()
        client = self.through(proxy, retry_for=0)
        for status, kind in ((400, pawl.Invalid), (403, pawl.Denied), (404, pawl.NotFound), (409, pawl.Refused), (410, pawl.Refused),
                             (423, pawl.Refused), (429, pawl.Unavailable), (500, pawl.PawlError), (503, pawl.Unavailable), (507, pawl.Refused)):
            body = json.dumps({"code": "brand-new", "detail": "why", "request_id": "r7", "color": "red"}).encode()
            head = f"HTTP/1.1 {status} X\r\nContent-Type: application/problem+json\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
            proxy.answer(b"POST ", head.encode() + body)
            with self.assertRaises(pawl.PawlError) as caught:
                client.resolve(["k"])
            error = caught.exception
            self.assertEqual((type(error), error.code, error.status, error.detail), (kind, "brand-new", status, "why"))
            self.assertEqual((error.request_id, error.members, error.foreign), ("r7", {"color": "red"}, False))

    def test_addresses(self) -> None:
        for url in ("", "ftp://host", "http://user:secret@host", "http://host/?q=1", "host:80"):
            with self.assertRaises(pawl.Invalid) as caught:
                pawl.Client(url)
            self.assertNotIn("secret", str(caught.exception))


class Environment(Case):
    def test_inside_pawl_run(self) -> None:
        """A command of `pawl run` finds its lease, which it neither renews nor releases."""
        command = ("import pawl\n"
                   "with pawl.from_env() as l:\n"
                   "    l.put_bytes(b'from inside', 'out')\n"
                   "    l.check()\n"
                   "print(l.key, l.token, l.publish().version)\n")
        run = subprocess.run(
            [os.environ["PAWL_TEST_BINARY"], "run", "--key", self.key, "--", sys.executable, "-c", command], capture_output=True, text=True, timeout=60,
            env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(pawl.__file__))})
        self.assertEqual((run.returncode, run.stdout), (0, f"{self.key} 1 1.1\n"), run.stderr)
        self.assertEqual(self.read(), b"from inside")

    def test_of_a_lease(self) -> None:
        with self.client.lease(self.key, 30) as lease:
            with mock.patch.dict(os.environ, lease.environment()):
                with self.client.from_env() as same:
                    same.put_bytes(b"1", "out")
                self.assertEqual((same.token, same.publish().token), (1, 1))
            self.assertTrue(lease.publish().replayed)  # it is held still


def _kinds(kind: Type[pawl.PawlError]) -> List[Type[pawl.PawlError]]:
    return [kind] + [below for direct in kind.__subclasses__() for below in _kinds(direct)]
