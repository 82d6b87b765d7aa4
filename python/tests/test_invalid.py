"""What is wrong in a call is Invalid, names the argument, and is told before anything is sent."""

from __future__ import annotations

import builtins
from typing import Any, Callable, Dict

import pawl
from tests.rig import Case


class Arguments(Case):
    def refused(self, name: str, call: Callable[[], object]) -> None:
        with self.subTest(name), self.assertRaises(pawl.Invalid) as caught:
            call()
        self.assertTrue(caught.exception.errors[0]["pointer"] == name, caught.exception)
        self.assertEqual(caught.exception.status, 0)

    def test_of_a_client(self) -> None:
        wrong: Any = None
        for url in ("http://h:99999", "http://h:x", "http://[::1", "http://h/a b", "http://h/\n", "http://h/é", 80):
            address: Any = url
            self.refused("url", lambda: pawl.Client(address))
        self.refused("timeout", lambda: pawl.Client("http://h", timeout=wrong))
        self.refused("retry_for", lambda: pawl.Client("http://h", retry_for=wrong))

    def test_of_calls(self) -> None:
        wrong: Any = None
        number: Any = 52
        data: Any = b"x"
        text: Any = "x"
        self.refused("wait", lambda: self.client.lease(self.key, wait=wrong))
        self.refused("ttl", lambda: self.client.lease(self.key, wrong))
        self.refused("key", lambda: self.client.lease(number))
        self.refused("timeout", lambda: self.client.wait_for_change(self.key, timeout=wrong))
        self.refused("keys", lambda: self.client.resolve("abc"))
        with self.client.lease(self.key) as lease:
            for content_type in ("text/plain\r\nX: y", "text/plain\n", "text/\u20ac", "", number):
                self.refused("content_type", lambda: lease.put_bytes(b"x", "n", content_type))
                self.refused("content_type", lambda: lease.put(__file__, "n", content_type))
            self.refused("file", lambda: lease.put(data, "n"))
            self.refused("data", lambda: lease.put_bytes(text, "n"))
            self.refused("path", lambda: lease.put_bytes(b"x", number))
            self.refused("name", lambda: lease.effect(number))
            self.refused("if_match", lambda: lease.publish(if_match="1.1\r\nX: y"))


class Names(Case):
    def test_an_import_of_all_leaves_the_built_in_open(self) -> None:
        names: Dict[str, Any] = {}
        exec("from pawl import *", names)
        self.assertIs(names.get("open", builtins.open), builtins.open)
        self.assertIs(names["Client"], pawl.Client)
        self.assertEqual([name for name in pawl.__all__ if name in vars(builtins)], [])
