#!/usr/bin/env python3
"""report.py SALES.csv: render a report of sales by region, and publish it under the key reports/sales.

It exits with 0 when the report is published, 75 when another worker has the key, and 80 when a newer one has overtaken this one.
"""

from __future__ import annotations

import argparse
import collections
import csv
import html
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from typing import Dict

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import pawl  # noqa: E402

KEY = "reports/sales"
HELD, FENCED = 75, 80  # exit codes, as those of `pawl run`


def render(sales: str, folder: pathlib.Path) -> int:
    """Write the report as a page and as a table, and return the number of rows that went into it."""
    totals: Dict[str, int] = collections.defaultdict(int)
    rows = 0
    with open(sales, encoding="utf-8", newline="") as source:
        for row in csv.DictReader(source):
            totals[row["region"]] += int(row["amount"])
            rows += 1
    with open(folder / "totals.csv", "w", encoding="utf-8", newline="") as table:
        writer = csv.writer(table)
        writer.writerow(["region", "total"])
        writer.writerows(sorted(totals.items()))
    lines = "".join(f"<tr><td>{html.escape(region)}</td><td>{total}</td></tr>\n" for region, total in sorted(totals.items()))
    page = f"<!doctype html>\n<meta charset=utf-8>\n<title>Sales</title>\n<table>\n{lines}</table>\n"
    (folder / "index.html").write_text(page, encoding="utf-8")
    return rows


def work(options: argparse.Namespace) -> int:
    """What a worker does: take the lease, render, publish."""
    try:
        with pawl.lease(KEY, ttl=options.ttl, wait=options.wait, holder=options.holder) as lease, tempfile.TemporaryDirectory() as folder:
            print(f"{options.holder} has token {lease.token}", flush=True)
            rows = render(options.sales, pathlib.Path(folder))
            if options.stop:
                os.kill(os.getpid(), signal.SIGSTOP)  # as a suspended machine would be: here, and for longer than the lease lasts
                print(f"{options.holder} wakes up and publishes", flush=True)
            lease.put_tree(folder)
            receipt = lease.publish(primary="index.html", expect=["index.html", "totals.csv"], metadata={"rows": str(rows)}, release=True)
    except pawl.LeaseHeld as error:
        print(f"{error.holder} is at it already; try again in {error.retry_after:.0f} s", file=sys.stderr)
        return HELD
    except pawl.Fenced as error:
        print(f"{options.holder} is fenced: {error.detail}", flush=True)
        return FENCED
    print(f"{options.holder} published {receipt.version}: {rows} rows, {receipt.files} files", flush=True)
    return 0


def overtaken(options: argparse.Namespace) -> int:
    """Start a worker on older data that is stopped when it has the lease, overtake it, and wake it up."""
    command = [sys.executable, __file__, options.overtake, "--holder", "worker-a", "--ttl", "1", "--wait", "30", "--stop"]
    with subprocess.Popen(command) as stale:
        try:
            _, status = os.waitpid(stale.pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                raise SystemExit("worker-a ended before it was stopped")
            code = work(options)  # waits until the lease of worker-a has run out
            stale.send_signal(signal.SIGCONT)
            print(f"worker-a exits with {stale.wait(60)}", flush=True)
        finally:
            stale.kill()
    return code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sales", help="a CSV file with the columns region and amount")
    parser.add_argument("--holder", default=None, help="who works on the report")
    parser.add_argument("--ttl", type=float, default=30, help="seconds that the lease lasts between renewals")
    parser.add_argument("--wait", type=float, default=0, help="seconds to wait for a lease that another worker has")
    parser.add_argument("--stop", action="store_true", help="stop this process (SIGSTOP) when the report is rendered")
    parser.add_argument("--overtake", metavar="OLD.csv", help="overtake a worker on this older file, which is stopped meanwhile")
    options = parser.parse_args()
    options.holder = options.holder or f"worker {os.getpid()}"
    return overtaken(options) if options.overtake else work(options)


if __name__ == "__main__":
    sys.exit(main())
