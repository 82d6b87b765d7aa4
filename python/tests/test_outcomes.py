"""What the client makes of lost answers, proxies, and refusals."""

from __future__ import annotations

import socket
import threading
import time

import pawl
from tests.rig import Case, answer


class LostAnswer(Case):
    def test_case_16_of_a_publish(self) -> None:
        """The answer to A's publish is lost: the client repeats it and gets its receipt."""
        proxy = self.proxy()
        with self.through(proxy).lease(self.key, 30) as lease:
            lease.put_bytes(b"A", "out")
            proxy.lose_answer(b"/publish ")
            receipt = lease.publish()
        self.assertTrue(proxy.sprung.is_set())
        self.assertEqual((receipt.token, receipt.replayed, receipt.superseded), (1, True, False))
        self.assertEqual(len([r for r in proxy.requests if b"/publish " in r]), 2)

    def test_case_16_superseded_before_the_repetition(self) -> None:
        """The answer is lost and B publishes before A repeats: A learns "published, since superseded", which is no error."""
        proxy = self.proxy()
        with self.through(proxy, retry_for=0).lease(self.key, 30) as lease:
            lease.put_bytes(b"A", "out")
            proxy.lose_answer(b"/publish ")
            with self.assertRaises(pawl.OutcomeUnknown) as caught:
                lease.publish(release=True)
            self.assertTrue(caught.exception.retryable)
            self.publish(b"B")
            receipt = lease.publish(release=True)
        self.assertEqual((receipt.token, receipt.replayed, receipt.current, receipt.superseded), (1, True, pawl.Version(2, 1), True))
        self.assertEqual(self.read(), b"B")

    def test_of_an_upload(self) -> None:
        proxy = self.proxy()
        with self.through(proxy).lease(self.key, 30) as lease:
            proxy.lose_answer(b"PUT ")
            sent = lease.put_bytes(b"A", "out")
            self.assertTrue(proxy.sprung.is_set())
            self.assertEqual(sent.size, 1)
            lease.publish()
        self.assertEqual(self.read(), b"A")

    def test_of_a_download(self) -> None:
        """A download that breaks goes on by Range at its permanent address."""
        data = bytes(range(256)) * 32768  # 8 MiB
        self.publish(data)
        proxy = self.proxy()
        with self.through(proxy).open(self.key) as file:
            came = file.read(1 << 20)
            proxy.cut()
            came += file.read()
        self.assertTrue(came == data)
        self.assertEqual(len([r for r in proxy.requests if b"/files/out?revision=1 " in r]), 2)


class Proxies(Case):
    def test_a_foreign_504_on_a_publish_is_repeated(self) -> None:
        proxy = self.proxy()
        with self.through(proxy).lease(self.key, 30) as lease:
            lease.put_bytes(b"A", "out")
            proxy.answer(b"/publish ", answer("504 Gateway Timeout", b"<html>", "Content-Type: text/html"))
            self.assertEqual(lease.publish().token, 1)

    def test_a_foreign_answer_doesnt_look_like_the_fence(self) -> None:
        proxy = self.proxy()
        client = self.through(proxy, retry_for=0)
        with client.lease(self.key, 30) as lease:
            for status, kind, code in (
                ("409 Conflict", pawl.Refused, "http-409"), ("410 Gone", pawl.Refused, "http-410"), ("404 Not Found", pawl.NotFound, "not-found"),
                ("422 Unprocessable Content", pawl.Refused, "http-422"), ("413 Too Large", pawl.Refused, "too-large"),
                ("423 Locked", pawl.Refused, "http-423"), ("500 Oops", pawl.PawlError, "http-500"), ("302 Found", pawl.Refused, "http-302"),
                ("504 Timeout", pawl.OutcomeUnknown, "outcome-unknown"),
            ):
                proxy.answer(b"/files/", answer(status, b"no", "Location: /elsewhere"))
                with self.subTest(status), self.assertRaises(pawl.PawlError) as caught:
                    lease.delete("out")
                self.assertEqual((type(caught.exception), caught.exception.code), (kind, code))
                self.assertEqual(caught.exception.foreign, kind is not pawl.OutcomeUnknown)
                self.assertFalse(lease.lost.is_set())
            proxy.answer(b"GET ", answer("404 Not Found", b"no"))
            with self.assertRaises(pawl.NotFound):  # and not None
                client.current(self.key)

    def test_retry_after_is_heeded(self) -> None:
        proxy = self.proxy()
        problem = b'{"code":"rate-limited","status":429,"detail":"slow down"}'
        for line in ("Retry-After: 1", "Retry-After: Sun, 29 Nov 2026 12:00:01 GMT"):
            proxy.answer(b"GET ", answer("429 Too Many", problem, "Content-Type: application/problem+json", line, "Date: Sun, 29 Nov 2026 12:00:00 GMT"))
            began = time.monotonic()
            self.assertIsNone(self.through(proxy).current(self.key))
            self.assertGreaterEqual(time.monotonic() - began, 1.0)

    def test_a_stale_answer_is_never_repeated(self) -> None:
        proxy = self.proxy()
        with self.through(proxy).lease(self.key, 30) as lease:
            lease.put_bytes(b"A", "out")
            for code in ("stale-token", "lease-lost", "unknown-token", "generation-collected"):
                problem = b'{"code":"%b","status":409,"retryable":true,"token":1}' % code.encode()
                proxy.answer(b"/publish ", answer("409 Conflict", problem, "Content-Type: application/problem+json"))
                with self.assertRaises(pawl.Fenced) as caught:
                    lease.publish()
                self.assertEqual(caught.exception.code, code)
            self.assertEqual(len([r for r in proxy.requests if b"/publish " in r]), 4)
            self.assertTrue(lease.lost.is_set())
            lease.publish()

    def test_an_answer_that_is_no_json_counts_as_lost(self) -> None:
        proxy = self.proxy()
        proxy.answer(b"GET ", answer("200 OK", b"<html>welcome", "Content-Type: text/html"))
        self.assertIsNone(self.through(proxy).current(self.key))
        self.assertEqual(len(proxy.requests), 2)

    def test_unreachable(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = "http://127.0.0.1:%d" % listener.getsockname()[1]
        client = self.enter(pawl.Client(url, retry_for=0.3))
        with self.assertRaises(pawl.Unreachable) as caught:
            client.lease(self.key, 30).acquire()
        self.assertIn(url, str(caught.exception))
        self.assertTrue(caught.exception.retryable)

    def test_a_silent_server(self) -> None:
        """The timeout is for the whole answer, also when it comes drop by drop."""
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def drip() -> None:
                connection, _ = listener.accept()
                with connection:
                    try:
                        while True:
                            connection.sendall(b"H")
                            time.sleep(0.05)
                    except OSError:
                        pass  # the client has gone

            thread = threading.Thread(target=drip)
            thread.start()
            began = time.monotonic()
            with self.enter(pawl.Client("http://127.0.0.1:%d" % listener.getsockname()[1], timeout=0.5, retry_for=0)) as client:
                with self.assertRaisesRegex(pawl.OutcomeUnknown, "timed out|in time"):
                    client.lease(self.key, 30)._ask(pawl._Secret("0" * 32), 0)
            self.assertLess(time.monotonic() - began, 10)
            thread.join()
