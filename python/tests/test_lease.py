"""The lease: what the block promises, renewing, and the own clock."""

from __future__ import annotations

import concurrent.futures
import io
import threading
import time
from typing import Any, Tuple
from unittest import mock

import pawl
from tests.rig import PATIENCE, Case, answer


class SlowFile(io.RawIOBase):
    """A pipe that gives a piece now and then, until its end."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._until = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if time.monotonic() > self._until:
            return 0
        time.sleep(0.05)  # The upload is slow: this is what is tested.
        buffer[:5] = b"more\n"
        return 5


class Block(Case):
    def test_is_released_and_its_threads_end(self) -> None:
        before = threading.active_count()
        with self.client.lease(self.key, 30, holder="A", labels={"job": "7"}) as lease:
            self.assertGreater(threading.active_count(), before)
            self.assertTrue(0 < lease.remaining <= 30)
            lease.check()
        self.assertEqual(threading.active_count(), before)
        with self.client.lease(self.key, 30) as lease:  # at once, since the first was given back
            self.assertEqual(lease.token, 2)
        generations = list(self.client.history(self.key))
        self.assertEqual((generations[1].holder, generations[1].labels), ("A", {"job": "7"}))

    def test_an_exception_passes_through(self) -> None:
        with self.assertRaises(ZeroDivisionError):
            with self.client.lease(self.key, 30):
                1 / 0
        with self.client.lease(self.key, 30) as lease:
            self.assertEqual(lease.token, 2)

    def test_held_by_another(self) -> None:
        with self.client.lease(self.key, 30, holder="A"):
            with self.assertRaises(pawl.LeaseHeld) as caught:
                self.client.lease(self.key, 30).acquire()
        self.assertEqual((caught.exception.holder, caught.exception.token), ("A", 1))
        self.assertTrue(0 < caught.exception.retry_after <= 31)
        self.assertIsNotNone(caught.exception.expires_at)

    def test_waits_for_its_turn(self) -> None:
        first = self.client.lease(self.key, 30).acquire()
        release = threading.Timer(0.3, first.release)
        release.start()
        with self.client.lease(self.key, 30, wait=PATIENCE) as second:
            self.assertEqual(second.token, 2)
        release.join()

    def test_left_when_lost_and_unpublished(self) -> None:
        """Leaving the block without an exception raises Fenced, with both tokens, and the history knows who came late."""
        proxy = self.proxy()
        with self.assertRaises(pawl.Fenced) as caught:
            with self.through(proxy).lease(self.key, 0.3, holder="A") as lease:
                proxy.refuse(True)
                self.publish(b"B")
                proxy.refuse(False)
                self.assertTrue(lease.lost.wait(PATIENCE))
                self.eventually(lambda: isinstance(lease._cause, pawl.Fenced))
        self.assertEqual((caught.exception.code, caught.exception.token, caught.exception.accepted_token), ("stale-token", 1, 2))
        self.assertEqual([r.holder for g in self.client.history(self.key) for r in g.rejections], ["A"])

    def test_left_when_given_up(self) -> None:
        """A lease is lost with its generation, too, which a renewal tells."""
        proxy = self.proxy()
        problem = b'{"code":"generation-collected","status":410,"detail":"acquire the key again","token":1}'
        with self.assertRaises(pawl.Fenced) as caught:
            with self.through(proxy).lease(self.key, 0.6) as lease:
                proxy.answer(b"PATCH ", answer("410 Gone", problem, "Content-Type: application/problem+json"))
                self.assertTrue(lease.lost.wait(PATIENCE))
                with self.assertRaises(pawl.Fenced):
                    lease.check()
                lease._told = False  # as if the block hadn't looked
        self.assertEqual((caught.exception.code, caught.exception.token), ("generation-collected", 1))

    def test_left_when_lost_and_told(self) -> None:
        """What the block has caught itself isn't raised a second time."""
        proxy = self.proxy()
        with self.through(proxy).lease(self.key, 0.3) as lease:
            proxy.refuse(True)
            self.publish(b"B")
            proxy.refuse(False)
            self.eventually(lambda: isinstance(lease._cause, pawl.Fenced))
            with self.assertRaises(pawl.LeaseLost) as caught:
                lease.check()
            self.assertEqual(caught.exception.token, 1)

    def test_published_then_lost_is_no_error(self) -> None:
        with self.client.lease(self.key, 2) as lease:
            lease.put_bytes(b"A", "out")
            lease.publish(release=True)
            self.publish(b"B")
            lease.check()
        self.assertEqual(self.read(), b"B")

    def test_is_for_one_grant(self) -> None:
        lease = self.client.lease(self.key, 30)
        with self.assertRaisesRegex(RuntimeError, "isn't acquired yet"):
            lease.put_bytes(b"", "out")
        with lease:
            pass
        with self.assertRaisesRegex(RuntimeError, "make a new one"):
            lease.acquire()

    def test_release_with_the_publish(self) -> None:
        """Renewals that come after it don't look like a loss."""
        with self.client.lease(self.key, 2) as lease:
            lease.put_bytes(b"A", "out")
            receipt = lease.publish(release=True)
            self.assertEqual(receipt.current, receipt.version)
            self.assertFalse(lease.lost.wait(1))
        with self.client.lease(self.key, 30) as lease:
            self.assertEqual(lease.token, 2)

    def test_an_acquire_whose_answer_is_lost_is_repeated(self) -> None:
        proxy = self.proxy()
        proxy.lose_answer(b"POST ")
        with self.through(proxy).lease(self.key, 30) as lease:
            self.assertTrue(proxy.sprung.is_set())
            self.assertEqual(lease.token, 1)  # the same grant


class Clock(Case):
    def unrenewed(self, key: str) -> pawl.Lease:
        """A lease that isn't renewed in the background, and ends soon."""
        lease = self.client.lease(key, 0.1)
        setattr(lease, "_renew_on", lambda: None)
        return lease.acquire()

    def renew_for_long(self, lease: pawl.Lease) -> None:
        """Renew a lease for long enough that the machine's load doesn't end it before the next one comes."""
        self.client._once("PATCH", self.client._key_url(lease.key, "lease"), body={"ttl": "30s"}, lease=lease._id)

    def test_left_after_it_ran_out_unrenewed(self) -> None:
        """The block asks the server before it is left, since no renewal has: refused, it raises Fenced; renewed, it releases."""
        for taken in (True, False):
            key = f"{self.key}/{taken}"
            a = self.unrenewed(key)
            self.assertTrue(a.lost.wait(PATIENCE))
            if taken:
                self.publish(b"B", key=key)
                with self.assertRaises(pawl.Fenced) as caught:
                    a.__exit__(None, None, None)
                self.assertEqual((caught.exception.token, caught.exception.accepted_token), (1, 2))
            else:
                self.renew_for_long(a)
                a.__exit__(None, None, None)
                with self.client.lease(key, 30) as b:  # at once
                    self.assertEqual(b.token, 2)

    def test_case_04_upload_longer_than_its_ttl(self) -> None:
        with self.client.lease(self.key, 2) as lease:
            lease.put(SlowFile(5), "out")  # type: ignore[arg-type]  # A RawIOBase has what it takes.
            self.assertFalse(lease.lost.is_set())
            receipt = lease.publish()
        self.assertEqual((receipt.token, receipt.lease_expired), (1, False))
        self.assertEqual(len(self.read()) % 5, 0)

    def test_case_04_only_renewals_are_cut(self) -> None:
        """The own clock tells no later than the server's lease ends; nobody has taken over, so the publish succeeds all the same."""
        proxy = self.proxy()
        proxy.cut_requests(b"PATCH /v1/keys/")
        with self.through(proxy).lease(self.key, 0.8) as lease:
            own_end = time.time() + lease.remaining
            self.assertTrue(lease.lost.wait(PATIENCE))
            self.assertGreaterEqual(time.time(), own_end - 0.001)
            with self.assertRaises(pawl.LeaseExpired) as caught:
                lease.check()
            self.assertEqual(caught.exception.members["token"], 1)
            held = self.client._call("GET", self.client._key_url(self.key, "lease"))[1]
            ends = pawl._time(held["expires_at"])
            assert ends is not None
            server_end = ends.timestamp()
            self.assertLessEqual(own_end, server_end + 0.002)  # Both are this machine's clocks; Postgres's time is in milliseconds.
            self.eventually(lambda: time.time() > server_end)
            lease.put_bytes(b"late", "out")
            receipt = lease.publish()
        self.assertEqual((receipt.token, receipt.lease_expired), (1, True))

    def test_failing_renewals_warn_now_and_then(self) -> None:
        """The first one is a warning, and one every so often after it; the others are for those who debug."""
        for every, enough in ((30.0, 1), (0.0, 5)):
            proxy = self.proxy()
            proxy.cut_requests(b"PATCH /v1/keys/")
            with mock.patch.object(pawl, "_WARN_EVERY", every), self.assertLogs("pawl", "DEBUG") as logs:
                with self.through(proxy).lease(f"{self.key}/{every}", 1.5):
                    self.eventually(lambda: len([line for line in logs.output if "renewal_failed" in line]) >= 5)
            warned = [line for line in logs.output if "WARNING:pawl:renewal_failed" in line]
            self.assertTrue(len(warned) == 1 if enough == 1 else len(warned) >= enough, logs.output)

    def test_failing_renewals_dont_come_at_one_moment(self) -> None:
        for ttl, failures, bound in ((30.0, 1, 0.1), (30.0, 3, 0.4), (30.0, 50, 3.0), (0.5, 9, 0.05)):
            pauses = [pawl._renewal_pause(ttl, failures) for _ in range(200)]
            self.assertTrue(all(bound / 2 <= pause <= bound for pause in pauses))
            self.assertGreater(len(set(pauses)), 100)

    def test_case_06_renewed_after_expiry(self) -> None:
        """Expired, nobody took over: renewing works, under the same token. Expired, somebody took over: refused."""
        for taken in (False, True):
            key = f"{self.key}/{taken}"
            a = self.unrenewed(key)
            self.assertTrue(a.lost.wait(PATIENCE))
            if taken:
                with self.client.lease(key, 30, wait=PATIENCE):
                    with self.assertRaises(pawl.LeaseLost):
                        a._renew(5)
            else:
                self.eventually(lambda: a.remaining < -0.05)
                self.renew_for_long(a)
                with self.assertRaises(pawl.LeaseHeld):
                    self.client.lease(key, 30).acquire()
            a.release()

    def test_case_06_races(self) -> None:
        """acquire(B) against renew(A) of an expired lease: never both."""

        def race(number: int) -> Tuple[bool, bool]:
            key = f"{self.key}/{number}"
            a = self.unrenewed(key)
            b = self.client.lease(key, 30)
            while a.remaining > -0.01:
                time.sleep(0.005)
            start = threading.Barrier(2)

            def renew() -> bool:
                start.wait()
                try:
                    self.renew_for_long(a)
                    return True
                except pawl.LeaseLost:
                    return False

            def acquire() -> bool:
                start.wait()
                try:
                    b.acquire()
                    return True
                except pawl.LeaseHeld:
                    return False

            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                renewing, acquiring = pool.submit(renew), pool.submit(acquire)
                outcome = renewing.result(PATIENCE), acquiring.result(PATIENCE)
            a.release()
            b.release()
            return outcome

        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            outcomes = list(pool.map(race, range(300)))
        self.assertEqual([o for o in outcomes if o[0] == o[1]], [])
        self.assertEqual(len(outcomes), 300)

    def test_case_12_the_server_is_away_for_three_ttls(self) -> None:
        """Nobody has replaced the holders meanwhile: each goes on, and no token comes twice."""
        proxy = self.proxy()
        client = self.through(proxy)
        leases = [self.enter(client.lease(f"{self.key}/{n}", 0.5)) for n in range(10)]
        proxy.refuse(True)
        for lease in leases:
            self.assertTrue(lease.lost.wait(PATIENCE))
        self.eventually(lambda: all(lease.remaining < -1.0 for lease in leases))
        proxy.refuse(False)
        self.eventually(lambda: all(lease.remaining > 0 for lease in leases))  # renewed in the background
        for number, lease in enumerate(leases):
            lease.put_bytes(b"%d" % number, "out")
            self.assertEqual(lease.publish(release=True).token, 1)
            with self.client.lease(lease.key, 30) as following:
                self.assertEqual(following.token, 2)
