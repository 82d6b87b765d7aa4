"""Workers that come back late, in real processes."""

from __future__ import annotations

from typing import List

from tests.rig import PATIENCE, Case, Worker


class StaleWorker(Case):
    def test_case_01_stopped_past_its_lease(self) -> None:
        """A is stopped past its lease, B publishes, A goes on: it is fenced, and B's bytes stay."""
        a = Worker(self, self.key, "worker-a", 0.5, "A, late")
        a.stop()
        with self.client.lease(self.key, 30, wait=PATIENCE, holder="worker-b") as b:  # waits until A's lease has run out
            b.put_bytes(b"B", "out.txt")
            receipt = b.publish()
        self.assertEqual((a.token, receipt.token), (1, 2))

        code, outcome = a.go_on()
        self.assertEqual((code, outcome["token"], outcome["accepted_token"], outcome["holder"]), (80, 1, 2, "worker-b"))
        self.assertEqual(self.read(), b"B")
        rejected = [(g.token, r.token, r.holder, r.accepted_token) for g in self.client.history(self.key) for r in g.rejections]
        self.assertEqual(rejected, [(1, 1, "worker-a", 2)])

    def test_case_01_stopped_and_left_without_a_publish(self) -> None:
        """Whoever gave A its work learns that it didn't count, although A itself never asks."""
        a = Worker(self, self.key, "worker-a", 0.5, "")
        self.publish(b"B")  # waits until A's lease has run out
        code, outcome = a.go_on()
        self.assertEqual((code, outcome["code"], outcome["token"], outcome["accepted_token"]), (80, "stale-token", 1, 2))

    def test_case_02_one_job_runs_six_times(self) -> None:
        """A job is redelivered every TTL while all earlier runs live on: the newest counts, five are fenced."""
        runs: List[Worker] = []
        for number in range(6):
            if runs:
                runs[-1].stop()
            runs.append(Worker(self, self.key, f"run-{number}", 0.4, f"run {number}"))
        self.assertEqual([run.token for run in runs], [1, 2, 3, 4, 5, 6])
        code, outcome = runs[5].go_on()
        self.assertEqual((code, outcome), (0, {"token": 6, "current": "6.1"}))
        for run in runs[:5]:
            code, outcome = run.go_on()
            self.assertEqual((code, outcome["token"], outcome["accepted_token"]), (80, run.token, 6))
        self.assertEqual(self.read(), b"run 5")
