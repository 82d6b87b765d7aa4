"""A worker as people write it: it takes the lease, works until it is told to go on, and publishes. Without a text it stops itself and then
leaves its block without a publish."""

from __future__ import annotations

import json
import os
import signal
import sys

import pawl


def main() -> int:
    key, holder, ttl, text = sys.argv[1:]
    try:
        with pawl.lease(key, ttl=float(ttl), wait=30, holder=holder) as lease:
            print(json.dumps({"token": lease.token}), flush=True)
            if not text:
                os.kill(os.getpid(), signal.SIGSTOP)
                return 0
            sys.stdin.readline()
            lease.put_bytes(text.encode(), "out.txt")
            receipt = lease.publish()
    except pawl.Fenced as error:
        print(json.dumps({"code": error.code, "token": error.token, "accepted_token": error.accepted_token, "holder": error.holder}), flush=True)
        return 80
    print(json.dumps({"token": receipt.token, "current": str(receipt.current)}), flush=True)
    return 0


sys.exit(main())
