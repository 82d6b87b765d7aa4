"""Waiting for a new version, at addresses that are right and wrong."""

from __future__ import annotations

import threading
import time
from typing import Callable, List

import pawl
from tests.rig import PATIENCE, Case, answer


class Waiting(Case):
    def test_for_the_first_and_for_the_next(self) -> None:
        for seen, data in ((None, b"1"), (pawl.Version(1, 1), b"2")):
            publishing = threading.Timer(0.2, self.publish, (data,))
            publishing.start()
            came = self.client.wait_for_change(self.key, seen, timeout=PATIENCE)
            publishing.join()
            self.assertEqual(came and came.token, int(data))
        self.assertIsNone(self.client.wait_for_change(self.key, "2.1", timeout=0.1))

    def test_answers_before_their_time_dont_make_it_spin(self) -> None:
        proxy = self.proxy()
        client = self.through(proxy)
        problem = b'{"code":"not-found","status":404,"key":"k"}'
        for early in (answer("304 Not Modified"), answer("404 Not Found", problem, "Content-Type: application/problem+json")):
            asked = len(proxy.requests)
            for _ in range(1000):
                proxy.answer(b"?wait=", early)
            began = time.monotonic()
            self.assertIsNone(client.wait_for_change(self.key, "1.1", timeout=1.5))
            self.assertGreaterEqual(time.monotonic() - began, 1.4)
            self.assertLess(len(proxy.requests) - asked, 12)
            proxy._answers.clear()


class WrongAddress(Case):
    def test_isnt_taken_for_nothing_published(self) -> None:
        """A path that no route of the server has is answered by its 404, as a key without a version is."""
        self.publish(b"x")
        wrong = self.enter(pawl.Client(self.client.url + "/base"))
        calls: List[Callable[[], object]] = [
            lambda: wrong.current(self.key), lambda: wrong.wait_for_change(self.key, None, 0), lambda: wrong.open(self.key)]
        for call in calls:
            with self.assertRaises(pawl.NotFound) as caught:
                call()
            self.assertIn(f"is {wrong.url} the address", str(caught.exception))

    def test_isnt_taken_for_a_lost_lease(self) -> None:
        proxy = self.proxy()
        problem = b'{"code":"not-found","status":404,"detail":"there is no such route"}'
        proxy.answer(b"PATCH ", answer("404 Not Found", problem, "Content-Type: application/problem+json"))
        with self.through(proxy).lease(self.key, 1.5) as lease:
            self.eventually(lambda: len([r for r in proxy.requests if r.startswith(b"PATCH ")]) > 1)
            self.assertFalse(lease.lost.is_set())
