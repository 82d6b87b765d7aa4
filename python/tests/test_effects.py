"""Effects at third parties that can't fence."""

from __future__ import annotations

import pawl
from tests.rig import PATIENCE, Case


class Effects(Case):
    def test_a_stalled_worker_and_its_successor_send_the_same_key(self) -> None:
        proxy = self.proxy()
        proxy.cut_requests(b"PATCH ")  # A isn't renewed
        with self.through(proxy).lease(self.key, 0.3, holder="A") as a:
            asked = a.effect("charge-52")
            self.assertEqual((asked.state, asked.done, asked.first_token, asked.token), ("pending", False, 1, 1))
            self.assertEqual(asked.idempotency_key, a.effect_prefix + "charge-52")
            with self.client.lease(self.key, 30, wait=PATIENCE, holder="B") as b:
                self.assertEqual(b.effect("charge-52").idempotency_key, asked.idempotency_key)
                done = b.effect_done("charge-52", "ch_1")
                self.assertEqual((done.done, done.result, done.done_token, done.first_token), (True, "ch_1", 2, 1))
                self.assertNotEqual(b.effect("charge-53").idempotency_key, asked.idempotency_key)
                b.put_bytes(b"receipt", "out")
                b.publish()
            with self.assertRaises(pawl.Fenced) as caught:
                a.effect("charge-52")
            self.assertEqual((caught.exception.code, caught.exception.token, caught.exception.accepted_token), ("stale-token", 1, 2))
        with self.client.lease(self.key, 30) as c:
            again = c.effect("charge-52")
            self.assertEqual((again.done, again.result, again.token), (True, "ch_1", 3))  # the provider needn't be called again
            for name in ("", "..", "a/b", "a b", "ä", "x" * 129, "a\n"):
                with self.subTest(name), self.assertRaisesRegex(pawl.Invalid, "name: must be 1 to 128"):
                    c.effect(name)
