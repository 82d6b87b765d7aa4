"""What the tests share: keys of their own, worker processes, and a proxy that does to connections what networks do."""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse
import uuid
from typing import Any, Callable, ContextManager, Dict, List, Optional, Tuple, TypeVar

import pawl

T = TypeVar("T")
PATIENCE = 30.0  # bounds every wait for something that should happen soon
_RUN = uuid.uuid4().hex[:8]
_numbers = itertools.count(1)


class Case(unittest.TestCase):
    """A test with a client and a key of its own."""

    def setUp(self) -> None:
        self.client = self.enter(pawl.Client())
        self.key = f"python/{_RUN}/{next(_numbers)}"

    def enter(self, made: ContextManager[T]) -> T:
        """Enter a context that is left at the end of the test."""
        self.addCleanup(made.__exit__, None, None, None)
        return made.__enter__()

    def proxy(self) -> FaultProxy:
        return self.enter(FaultProxy(self.client.url))

    def through(self, proxy: FaultProxy, **options: Any) -> pawl.Client:
        return self.enter(pawl.Client(proxy.url, **options))

    def publish(self, data: bytes, name: str = "out", key: str = "", **named: Any) -> pawl.Receipt:
        """Publish one file under a new token."""
        with self.client.lease(key or self.key, 30, wait=PATIENCE, holder="B") as lease:
            lease.put_bytes(data, name)
            return lease.publish(**named)

    def read(self, key: str = "") -> bytes:
        with self.client.open(key or self.key) as file:
            return file.read()

    def eventually(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline, "it didn't happen in time")
            time.sleep(0.01)


class Worker:
    """A process of worker.py, which has the lease when this returns."""

    def __init__(self, case: Case, key: str, holder: str, ttl: float, text: str) -> None:
        script = os.path.join(os.path.dirname(__file__), "worker.py")
        environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(pawl.__file__))}
        self.process = subprocess.Popen(
            [sys.executable, script, key, holder, str(ttl), text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        case.addCleanup(self.end)
        self.token = int(self._line()["token"])

    def _line(self) -> Dict[str, Any]:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            raise AssertionError("the worker says nothing")
        return dict(json.loads(self.process.stdout.readline()))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> Tuple[int, Dict[str, Any]]:
        """Let the worker render and publish, and return its exit code and what it says."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()
        self.process.send_signal(signal.SIGCONT)
        outcome = self._line()
        return self.process.wait(PATIENCE), outcome

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class FaultProxy:
    """Stands between a client and the server. It passes everything on until it is told otherwise."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self._target = (parts.hostname or "", parts.port or 80)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self._listener.getsockname()[1]
        self.requests: List[bytes] = []  # their first lines
        self.seen: List[bytes] = []  # all that came from clients
        self.sprung = threading.Event()  # the answer was lost
        self._lose: Optional[bytes] = None
        self._cut: Optional[bytes] = None
        self._answers: List[Tuple[bytes, bytes]] = []
        self._refusing = False
        self._lock = threading.Lock()
        self._sockets: List[socket.socket] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._threads: List[threading.Thread] = []  # two for each connection

    def __enter__(self) -> FaultProxy:
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._refusing = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()  # after that there are no new connections
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def lose_answer(self, text: bytes) -> None:
        """Pass the next request with this text on, and cut its connection when the server begins to answer."""
        self._lose = text

    def cut_requests(self, text: Optional[bytes]) -> None:
        """Cut the connection of every request with this text instead of passing it on."""
        self._cut = text

    def answer(self, text: bytes, answer: bytes) -> None:
        """Give this answer to the next request with this text, which isn't passed on."""
        self._answers.append((text, answer))

    def refuse(self, on: bool) -> None:
        """Close new connections at once, and those of this moment."""
        with self._lock:
            self._refusing = on
        if on:
            self.cut()

    def cut(self) -> None:
        """Cut all connections of this moment."""
        with self._lock:
            cut, self._sockets = self._sockets, []
        for sock in cut:
            _close(sock)

    def _run(self, work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                refusing = self._refusing
            if refusing:
                _close(client)
                continue
            server = socket.create_connection(self._target)
            with self._lock:
                self._sockets += [client, server]
            losing = threading.Event()
            self._run(self._copy, client, server, losing, True)
            self._run(self._copy, server, client, losing, False)

    def _copy(self, source: socket.socket, to: socket.socket, losing: threading.Event, request: bool) -> None:
        try:
            while True:
                data = source.recv(64 << 10)
                if not data:
                    break
                if request:
                    if not self._passes(data, source, losing):
                        break
                elif losing.is_set():
                    break
                to.sendall(data)
        except OSError:
            pass
        _close(source)
        _close(to)
        if losing.is_set():
            self.sprung.set()

    def _passes(self, data: bytes, client: socket.socket, losing: threading.Event) -> bool:
        self.seen.append(data)
        if b" HTTP/1.1\r\n" in data:
            self.requests.append(data.split(b"\r\n")[0])
        if self._cut is not None and self._cut in data:
            return False
        for entry in self._answers:
            if entry[0] in data:
                self._answers.remove(entry)
                client.sendall(entry[1])
                return False
        if self._lose is not None and self._lose in data:
            self._lose = None
            losing.set()
        return True


def answer(status: str, body: bytes = b"", *headers: str) -> bytes:
    """Write an answer for FaultProxy.answer."""
    head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers))
    return head.encode() + b"\r\n" + body


def _close(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is closed already
    sock.close()
