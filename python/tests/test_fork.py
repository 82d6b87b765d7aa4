"""Forked children."""

from __future__ import annotations

import os
import signal
from typing import Callable

import pawl
from tests.rig import Case


class Fork(Case):
    def child(self, work: Callable[[], object]) -> int:
        """Do some work in a forked child, and return its wait status."""
        child = os.fork()
        if child == 0:
            signal.alarm(10)  # ends a child that hangs
            try:
                work()
                os._exit(0)
            finally:
                os._exit(1)
        return os.waitpid(child, 0)[1]

    def test_doesnt_release(self) -> None:
        with self.client.lease(self.key, 30) as lease:
            self.assertEqual(self.child(lease.release), 0)
            with self.assertRaises(pawl.LeaseHeld):
                self.client.lease(self.key, 30).acquire()

    def test_while_all_locks_are_held(self) -> None:
        """A child of a process whose other threads are in calls doesn't wait for them: they aren't there."""
        pawl.current(self.key)  # makes the client of the environment
        with self.client.lease(self.key, 30) as lease:
            locks = [pawl._clients_lock, self.client._lock, pawl._environment_client()._lock, lease._lock, lease._stop._cond, lease.lost._cond]  # type: ignore[attr-defined]

            def work() -> None:
                assert pawl.current(self.key) is None and self.client.current(self.key) is None
                lease.check()
                lease.put_bytes(b"of the child", "out")
                lease.publish()
                assert not lease.lost.wait(0.01)
                with self.client.lease(self.key + "/other", 30):
                    pass
                lease.release()

            for lock in locks:
                lock.acquire()
            try:
                status = self.child(work)
            finally:
                for lock in locks:
                    lock.release()
            self.assertEqual(status, 0)
            lease.check()
        self.assertEqual(self.read(), b"of the child")

    def test_a_connection_of_the_parent_isnt_kept(self) -> None:
        """A download that was begun before the fork and ends in the child leaves the child no connection that the parent uses too."""
        self.publish(b"x" * (1 << 20))
        file = self.client.open(self.key)

        def work() -> None:
            file.read()
            file.close()
            assert not self.client._idle

        self.assertEqual(self.child(work), 0)
        file.close()
