"""Versions that callers name: in a compare-and-set, in a wait, and to read."""

from __future__ import annotations

from typing import Any, Callable, List

import pawl
from tests.rig import Case


class CompareAndSet(Case):
    def test_nothing_was_current(self) -> None:
        """if_match=current(key) holds also when that is None: whoever was first stays."""
        before = self.client.current(self.key)
        self.assertIsNone(before)
        self.publish(b"B", if_match=before)
        with self.assertRaises(pawl.Refused) as caught:
            self.publish(b"A", if_match=before)
        self.assertEqual(caught.exception.code, "precondition-failed")
        self.assertEqual(self.read(), b"B")

    def test_in_every_form(self) -> None:
        receipt = self.publish(b"1")
        forms: List[Callable[[pawl.Receipt], Any]] = [
            lambda r: r, lambda r: r.version, lambda r: str(r.version), lambda r: f'"{r.version}"', lambda r: f'W/"{r.version}"',
            lambda r: self.client.current(self.key)]
        for number, form in enumerate(forms):
            with self.subTest(number):
                receipt = self.publish(b"%d" % number, if_match=form(receipt))
        with self.assertRaises(pawl.Refused):
            self.publish(b"late", if_match="1.1")
        with self.client.lease(self.key) as lease:
            with self.assertRaises(pawl.Invalid):
                lease.publish(if_match="1.1", create_only=True)


class Reading(Case):
    def test_in_every_form(self) -> None:
        receipt = self.publish(b"one")
        first = self.client.current(self.key)
        assert first is not None
        forms: List[Any] = [first, receipt, first.version, "1.1", '"1.1"']
        for form in forms:
            with self.subTest(form):
                self.assertIsNone(self.client.wait_for_change(self.key, form, timeout=0))
        self.publish(b"two")
        for form in forms:
            with self.subTest(form):
                second = self.client.wait_for_change(self.key, form, timeout=0)
                self.assertEqual(str(second and second.version), "2.1")
                with self.client.open(self.key, "out", version=form) as file:
                    self.assertEqual(file.read(), b"one")
                self.assertEqual([f.path for f in self.client.files(self.key, version=form)], ["out"])
        with self.client.open(self.key, version=receipt) as file:  # it tells its primary file
            self.assertEqual(file.read(), b"one")
        with self.assertRaisesRegex(pawl.Invalid, "path.*1.1 alone"):
            self.client.open(self.key, version="1.1")

    def test_bad_ones(self) -> None:
        for bad in ("", "1", "1.0", "0.1", '"1.1', "1.1\n", "é.1", "99999999999999999.1", 1.1, b"1.1", (1, 1)):
            with self.subTest(bad), self.client.lease(self.key) as lease:
                value: Any = bad
                calls: List[Callable[[], object]] = [
                    lambda: self.client.wait_for_change(self.key, value, timeout=0), lambda: self.client.open(self.key, "out", version=value),
                    lambda: list(self.client.files(self.key, version=value)), lambda: lease.publish(if_match=value)]
                for call in calls:
                    with self.assertRaises(pawl.Invalid):
                        call()


class Actors(Case):
    def test_whose_credential_it_was(self) -> None:
        """A server that asks for credentials tells it, and admins from where; this one asks nobody."""
        receipt = self.publish(b"one")
        told = pawl._read(pawl.Receipt, {
            "key": "k", "token": 1, "revision": 1, "manifest_digest": "0" * 64, "files": 1, "bytes": 1, "publisher": "node-7",
            "published_at": "2026-11-29T12:00:00.000Z", "credential": "render farm", "from": "10.0.0.7"})
        self.assertEqual((told.publisher, told.credential, told.from_), ("node-7", "render farm", "10.0.0.7"))
        self.assertEqual((receipt.publisher, receipt.credential, receipt.from_), ("B", "", ""))
        self.assertEqual([(g.holder, g.credential, g.from_) for g in self.client.history(self.key)], [("B", "", "")])
