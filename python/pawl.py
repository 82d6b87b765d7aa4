"""Publish outputs with Pawl, so that a worker that comes back late can't overwrite a newer result.

This is one file for Python 3.9 and newer that needs the standard library alone: copy it beside your program.

    import pawl

    try:
        with pawl.lease("reports/today", ttl=30) as l:   # acquired here, renewed in the background, released at the end
            l.put("report.html")
            receipt = l.publish()
    except pawl.LeaseHeld as e:
        print("busy:", e.holder)                          # try again after e.retry_after seconds
    except pawl.Fenced:
        pass                                              # somebody newer has the key: drop this output, don't retry it

    with pawl.open("reports/today") as f:                 # the current file, checked by its SHA-256
        html = f.read()

The functions of this module talk to the server at PAWL_URL, with the credential in PAWL_CREDENTIAL or in the file that
PAWL_CREDENTIAL_FILE names, if there is one. A Client of your own names them itself.

**Safety** is one comparison that the server makes at publish: a newer token that was published fences every older one. The
lease only keeps two workers from doing the same work most of the time; losing it is told by `l.lost` and `l.check()`.

**Repetition.** Every call may be repeated without harm, and is, for 15 seconds, when an answer was lost or the server is
away. A refusal of the fence is never repeated. When no answer came in the end to a call that changes something, the error is
OutcomeUnknown; making the same call again is safe and tells.

**Threads and processes.** Clients and leases may be used from many threads at once. Each call has a connection of its own,
which is kept for the next one. After a fork the lease belongs to the parent alone: a child that leaves the `with` block neither
renews nor releases it, and its `lost` and check() tell only what the child itself sees. Clients go on in the child. The lease_id and the credential never show in repr, logs or errors, nor in the local variables of an error's traceback, and can't be pickled. (http.client prints
the heads of requests, with both of them, once its debuglevel is set.)

Files are streamed and never held in memory whole. All of them go through the server. Proxies named by the environment
(http_proxy and the like) are not used. What happens in the background is told to the logger "pawl", which discards it by
default. Times are in seconds, sizes in bytes.
"""

from __future__ import annotations

import atexit
import base64
import concurrent.futures
import copy
import dataclasses
import datetime
import email.utils
import enum
import getpass
import hashlib
import http.client
import io
import itertools
import json
import logging
import math
import os
import random
import re
import secrets
import select
import shutil
import socket
import ssl
import stat
import tempfile
import threading
import time
import types
import unicodedata
import urllib.parse
import weakref
from typing import Any, BinaryIO, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Type, TypeVar, Union

# Without open, which would stand in the way of the built-in one after `from pawl import *`: it is pawl.open.
__all__ = [
    "Client", "Denied", "Download", "Effect", "Fenced", "FileInfo", "Generation", "Incomplete", "Invalid", "Lease", "LeaseExpired",
    "LeaseHeld", "LeaseLost", "Mismatch", "NotFound", "OutcomeUnknown", "PawlError", "Pointer", "Receipt", "Refused", "Rejection",
    "Resolved", "Unavailable", "Unreachable", "Uploaded", "Version", "current", "download", "download_tree", "files", "from_env",
    "history", "lease", "manifest_digest", "pointers", "resolve", "wait_for_change",
]

_log = logging.getLogger("pawl")
_log.addHandler(logging.NullHandler())
_T = TypeVar("_T")

_CHUNK = 256 << 10  # bytes read or sent at once
_MAX_JSON = 64 << 20  # bytes of an answer, far above the largest page
_MAX_PAUSE = 5.0  # between two repetitions, unless the server asks for more
_FIRST_PAUSE = 0.1
_CONNECT_TIMEOUT = 5.0
_CONTINUE_TIMEOUT = 3.0  # how long an upload waits for the server's word before it sends its body
_ACQUIRE_PART = 25.0  # how long one request waits for a lease: proxies cut longer ones off
_POINTER_PART = 27.5  # the same for a new version
_KEEP_IDLE = 30.0  # how long an idle connection is thought to be good
_MAX_IDLE = 64  # connections kept
_MAX_REDIRECTS = 5
_MAX_BREAKS = 5  # connections in a row that give no byte of a download
_WARN_EVERY = 10.0  # a warning about renewals that go on failing
_PAGE = 1000  # entries, the most that the server gives
_MAX_TOKEN = 2**53 - 1


_locking: weakref.WeakSet[Any] = weakref.WeakSet()  # the clients and leases: what has locks


def _boottime() -> float:
    """The clock that leases are counted on. Where there is one, it goes on while the machine sleeps."""
    return time.clock_gettime(_CLOCK_BOOTTIME)


_CLOCK_BOOTTIME: int = getattr(time, "CLOCK_BOOTTIME", -1)
_now: Callable[[], float] = time.monotonic if _CLOCK_BOOTTIME < 0 else _boottime


# --- Errors ---------------------------------------------------------------------------------------------------------------


class PawlError(Exception):
    """A refusal or a failure.

    `code` is the server's stable word for it (see /problems/<code> at the server), also one that this client doesn't know yet;
    `status` the HTTP status, 0 when there was no answer; `retryable` whether the very same call may succeed later;
    `request_id` finds it in the server's log; `foreign` that the answer wasn't Pawl's own but, for instance, a proxy's.
    `members` holds all other members of the answer, by name.
    """

    def __init__(self, code: str, detail: str = "", *, status: int = 0, retryable: bool = False, request_id: str = "",
                 foreign: bool = False, members: Optional[Mapping[str, Any]] = None) -> None:
        self.code, self.detail, self.status, self.retryable = code, detail, status, retryable
        self.request_id, self.foreign = request_id, foreign
        self.members: Dict[str, Any] = {k: v for k, v in (members or {}).items() if k != "lease_id"}
        super().__init__(code, detail)

    def __str__(self) -> str:
        text = f"{self.code}: {self.detail}" if self.detail else self.code
        for fault in self.members.get("errors") or ():
            named = f"{fault.get('pointer')}: {fault.get('detail')}"
            if named not in text:
                text += f" ({named})"
        return text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.code!r}, {self.detail!r}, status={self.status})"

    def __reduce__(self) -> Tuple[Any, ...]:
        return _restore_error, (type(self), self.__dict__)

    def _number(self, name: str) -> Optional[int]:
        value = self.members.get(name)
        return value if isinstance(value, int) else None

    def _text(self, name: str) -> str:
        return str(self.members.get(name) or "")

    def _list(self, name: str) -> List[str]:
        return [str(entry) for entry in self.members.get(name) or ()]


def _restore_error(kind: Type[PawlError], state: Dict[str, Any]) -> PawlError:
    error = kind(state["code"], state["detail"])
    error.__dict__.update(state)
    return error


class Fenced(PawlError):
    """A newer grant of the key has taken over (stale-token, lease-lost), or the token is no good any more (unknown-token,
    generation-collected). This is final for this output: drop it, and acquire the key again to work on it again."""

    @property
    def token(self) -> Optional[int]:
        """The own token, None when the server didn't name it."""
        return self._number("token")

    @property
    def accepted_token(self) -> Optional[int]:
        """The newest token whose publish was accepted."""
        return self._number("accepted_token")

    @property
    def granted_token(self) -> Optional[int]:
        """The newest token that was granted."""
        return self._number("granted_token")

    @property
    def holder(self) -> str:
        """Who has superseded this worker, "" when the server didn't say."""
        return self._text("holder")

    @property
    def superseded_at(self) -> Optional[datetime.datetime]:
        """When that happened."""
        return _time(self.members.get("superseded_at"))

    @property
    def repeat(self) -> int:
        """How often this same request was refused, this time included. Above 1 some worker is in a loop."""
        return self._number("repeat") or 1


class LeaseLost(Fenced):
    """The lease was superseded or given back (lease-lost)."""


class LeaseExpired(PawlError):
    """No renewal was answered for a whole TTL, by the own clock (lease-expired). Another holder may have been granted the key
    since; whether a publish is still good is for the server to say, so that it may be tried."""


class LeaseHeld(PawlError):
    """Another holder has the lease (lease-held)."""

    @property
    def holder(self) -> str:
        """Who has it."""
        return self._text("holder")

    @property
    def token(self) -> Optional[int]:
        """Its token."""
        return self._number("token")

    @property
    def expires_at(self) -> Optional[datetime.datetime]:
        """When it ends unless it is renewed, by the server's clock."""
        return _time(self.members.get("expires_at"))

    @property
    def retry_after(self) -> float:
        """Seconds until then, 0 when unknown."""
        return (self._number("retry_after_ms") or 0) / 1000 or float(self._number("retry_after") or 0)


class Incomplete(PawlError):
    """A final publish lacks files (generation-incomplete). Upload the paths again, or delete them."""

    @property
    def missing(self) -> List[str]:
        """Expected, and not there."""
        return self._list("missing")

    @property
    def failed(self) -> List[str]:
        """Their upload failed or broke off."""
        return self._list("failed")

    @property
    def pending(self) -> List[str]:
        """Still uploading."""
        return self._list("pending")

    @property
    def empty(self) -> List[str]:
        """Expected to have bytes, and empty."""
        return self._list("empty")


class Refused(PawlError):
    """Refused for another lasting reason: precondition-failed, generation-sealed, pinned, older-source, too-large, …"""


class NotFound(PawlError):
    """There is no such key, generation or file (not-found)."""

    @property
    def paths(self) -> List[str]:
        """What a set without a primary file holds."""
        return self._list("paths")


class Invalid(PawlError, ValueError):
    """Something in the call is wrong; the message names it and the cure (invalid-key, invalid-path, invalid-request, …)."""

    @property
    def errors(self) -> List[Dict[str, str]]:
        """What is wrong: `pointer` and `detail` for each."""
        return list(self.members.get("errors") or ())


class Mismatch(PawlError):
    """Length or digest of what came isn't what was promised (digest-mismatch, length-mismatch)."""

    @property
    def promised(self) -> str:
        """The promised length or SHA-256."""
        return self._text("promised")

    @property
    def came(self) -> str:
        """What came."""
        return self._text("came")


class Denied(PawlError):
    """The credential is missing, or not good for this (unauthorized, forbidden)."""


class Unavailable(PawlError):
    """The server, Postgres or the store is away; nothing was changed (unavailable, rate-limited, unreachable)."""


class Unreachable(Unavailable):
    """No request of the call was answered, and none can have changed anything (unreachable)."""


class OutcomeUnknown(PawlError):
    """No answer came; the change may or may not have happened. Making the same call again is safe and tells (outcome-unknown)."""


_KINDS: Dict[str, Type[PawlError]] = {
    "stale-token": Fenced, "unknown-token": Fenced, "generation-collected": Fenced, "lease-lost": LeaseLost, "lease-held": LeaseHeld,
    "generation-incomplete": Incomplete, "not-found": NotFound, "digest-mismatch": Mismatch, "length-mismatch": Mismatch,
    "unauthorized": Denied, "forbidden": Denied, "unavailable": Unavailable, "rate-limited": Unavailable,
    "outcome-unknown": OutcomeUnknown, "internal": PawlError,
}
_STATUSES: Dict[int, Type[PawlError]] = {
    400: Invalid, 401: Denied, 403: Denied, 404: NotFound, 405: Invalid, 416: Invalid, 428: Invalid,
    429: Unavailable, 502: Unavailable, 503: Unavailable, 504: Unavailable,
}
# What an answer that isn't Pawl's is taken for. A guess must not look like the word of the fence.
_FOREIGN = {
    400: "invalid-request", 401: "unauthorized", 403: "forbidden", 404: "not-found", 413: "too-large", 429: "rate-limited",
    502: "unavailable", 503: "unavailable", 504: "unavailable",
}


def _kind(code: str, status: int) -> Type[PawlError]:
    known = _KINDS.get(code) or _STATUSES.get(status)
    return known or (PawlError if status >= 500 and status != 507 else Refused)


def _invalid(what: str, detail: str, code: str = "invalid-request") -> Invalid:
    return Invalid(code, f"{what}: {detail}", members={"errors": [{"pointer": what, "detail": detail}]})


class _Lost(Exception):
    """The answer to a request didn't come, or not whole. sent says that the request may have reached the server."""

    def __init__(self, cause: BaseException, sent: bool, permanent: bool = False) -> None:
        super().__init__(str(cause) or type(cause).__name__)
        self.sent, self.permanent = sent, permanent
        self.__cause__ = cause


class _SourceFault(Exception):
    """Reading what shall be uploaded failed: not the server's doing."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


# --- What the server tells --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, order=True)
class Version:
    """What is current under a key: the token of the grant, and how many times it has published. Its text is "17.1"."""

    token: int
    revision: int

    def __str__(self) -> str:
        return f"{self.token}.{self.revision}"


@dataclasses.dataclass(frozen=True)
class FileInfo:
    """One file of a generation; sha256 is in hex."""

    path: str
    size: int
    sha256: str
    content_type: str = ""


@dataclasses.dataclass(frozen=True)
class Uploaded(FileInfo):
    """What became of an upload. `identical`: the generation had this very file already, and no byte was sent. `superseded_by`: the newest
    token of the key when that is greater than the own; the upload stands, but its publish may be refused."""

    key: str = ""
    token: int = 0
    replaced: bool = False
    identical: bool = False
    overtaken: bool = False
    superseded_by: int = 0
    url: str = ""


@dataclasses.dataclass(frozen=True)
class Receipt:
    """The lasting record of one publish. `replayed`: it had been made before, and this is its receipt again. `superseded`: another
    version is current already. `publisher` is what the worker calls itself, `credential` the name of the credential that it was made
    with, and `from_` the address of its client, for admins of the key; both are "" where the server asks for no credential."""

    key: str
    token: int
    revision: int
    manifest_digest: str
    files: int
    bytes: int
    published_at: datetime.datetime
    publisher: str
    final: bool = True
    primary: str = ""
    source_revision: Optional[int] = None
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)
    replayed: bool = False
    current: Optional[Version] = None
    previous: Optional[Version] = None
    lease_expired: bool = False
    reuse_from: int = 0
    reused_files: int = 0
    reused_bytes: int = 0
    superseded_by: int = 0
    url: str = ""
    credential: str = ""
    from_: str = ""

    @property
    def version(self) -> Version:
        """The version that the receipt is about."""
        return Version(self.token, self.revision)

    @property
    def superseded(self) -> bool:
        """Whether another version was current when the server answered."""
        return self.current is not None and self.current != self.version


@dataclasses.dataclass(frozen=True)
class Pointer:
    """What is current under a key. `primary` is the file that readers get, "" for a set without one; `url` is its permanent address."""

    key: str
    token: int
    revision: int
    manifest_digest: str
    files: int
    bytes: int
    published_at: datetime.datetime
    publisher: str
    final: bool = True
    primary: str = ""
    content_type: str = ""
    source_revision: Optional[int] = None
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)
    url: str = ""

    @property
    def version(self) -> Version:
        """Token and revision."""
        return Version(self.token, self.revision)


@dataclasses.dataclass(frozen=True)
class Resolved:
    """One key of `resolve`; a key without a current version has found=False. url is None for a set without a primary file."""

    key: str
    found: bool
    token: int = 0
    revision: int = 0
    manifest_digest: str = ""
    final: bool = False
    primary: str = ""
    url: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class Rejection:
    """A refused request of a worker that came back late: who, when, with which token, and how often. `credential` and `from_` are as
    those of Receipt, of the first time."""

    token: int
    operation: str
    code: str
    holder: str
    first_at: datetime.datetime
    last_at: datetime.datetime
    repeat: int = 1
    overrun_ms: int = 0
    path: str = ""
    accepted_token: int = 0
    granted_token: int = 0
    superseded_by: str = ""
    superseded_at: Optional[datetime.datetime] = None
    credential: str = ""
    from_: str = ""


@dataclasses.dataclass(frozen=True)
class Generation:
    """What was written under one token: its state ("open", "sealed", …), its receipts, newest first, and its rejections. `credential`
    and `from_` are as those of Receipt, of the grant."""

    key: str
    token: int
    state: str
    holder: str
    granted_at: datetime.datetime
    revision: int = 0
    current: bool = False
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    released_at: Optional[datetime.datetime] = None
    lease_ended_at: Optional[datetime.datetime] = None
    sealed_at: Optional[datetime.datetime] = None
    credential: str = ""
    from_: str = ""
    receipts: Tuple[Receipt, ...] = ()
    rejections: Tuple[Rejection, ...] = ()


@dataclasses.dataclass(frozen=True)
class Effect:
    """What is done once at a third party that can't fence. `idempotency_key` is the same for (key, name) under every token: send it
    along. `state` is "pending" or "done"; once it is done, `result` is what the provider answered, and it needn't be called again."""

    key: str
    name: str
    idempotency_key: str
    state: str
    first_token: int = 0
    token: int = 0
    first_at: Optional[datetime.datetime] = None
    asked_at: Optional[datetime.datetime] = None
    done_token: int = 0
    done_at: Optional[datetime.datetime] = None
    result: str = ""
    superseded_by: int = 0

    @property
    def done(self) -> bool:
        """Whether it was done."""
        return self.state == "done"


_AnyVersion = Union[Version, Pointer, Receipt, str]  # what names a version


def _version(what: str, value: object) -> Version:
    """The version that a caller names: one itself, what has one, or its text, also as an ETag has it."""
    if isinstance(value, (Pointer, Receipt)):
        value = value.version
    text = str(value) if isinstance(value, (Version, str)) else ""
    found = re.fullmatch('(?:(W/)?(?P<q>"))?([1-9][0-9]{0,15})[.]([1-9][0-9]{0,15})(?(q)")', text)
    if not found or max(int(found.group(3)), int(found.group(4))) > _MAX_TOKEN:
        raise _invalid(what, f'must be a Version, Pointer, Receipt, or a text such as "17.1", not {value!r}')
    return Version(int(found.group(3)), int(found.group(4)))


def _tag(what: str, value: object) -> str:
    return f'"{_version(what, value)}"'


def _time(value: Any) -> Optional[datetime.datetime]:
    if not isinstance(value, str):
        return None
    return datetime.datetime.fromisoformat(value[:-1] + "+00:00" if value.endswith("Z") else value)


_NESTED: Dict[str, Callable[[Any], Any]] = {
    "current": lambda v: Version(v["token"], v["revision"]) if isinstance(v, dict) else v,
    "previous": lambda v: Version(v["token"], v["revision"]) if isinstance(v, dict) else v,
    "receipts": lambda v: tuple(_read(Receipt, entry) for entry in v or ()),
    "rejections": lambda v: tuple(_read(Rejection, entry) for entry in v or ()),
}


def _read(kind: Callable[..., _T], data: Any) -> _T:
    """Make a dataclass of a JSON object. Members that a newer server adds are passed over."""
    values = {}
    for field in dataclasses.fields(kind):
        name = field.name.rstrip("_")  # from_ is the member "from".
        if name in data:
            value = data[name]
            if name.endswith("_at"):
                value = _time(value)
            values[field.name] = _NESTED[name](value) if name in _NESTED else value
    return kind(**values)


# --- Names ------------------------------------------------------------------------------------------------------------------

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def _name_fault(name: str, dash: bool) -> str:
    """What is wrong with a key, or with a path (dash), or ""; the server's own rule."""
    if not name:
        return "is empty; give 1 to 400 bytes"
    try:
        length = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return "is not valid Unicode (a lone surrogate, as of an undecodable file name); rename it"
    if length > 400:
        return "is longer than 400 bytes; shorten it"
    for segment in name.split("/"):
        if not segment:
            return "has an empty segment; remove the leading, trailing or doubled slash"
        if segment in (".", ".."):
            return f'has a "{segment}" segment; write the name out, without relative parts'
        if segment == "-" and not dash:
            return 'has a "-" segment, which ends a key in a URL; rename that segment'
        if len(segment.encode("utf-8")) > 200:
            return "has a segment longer than 200 bytes; shorten it"
    for letter in name:
        if letter == "\\":
            return "has a backslash; use / between segments"
        if unicodedata.category(letter) == "Cc":
            return "has a control character; remove it"
        if letter == "\ufffd":
            return "has U+FFFD, which stands for lost characters; give the original name"
        if letter in _BIDI:
            return "has a character that reorders text (bidi control); remove it"
        if letter in "\u2028\u2029":
            return "has a line or paragraph separator; remove it"
    return ""


def _key(name: str) -> str:
    """A key in NFC, the only form that the server takes: macOS and some input methods give another one for the same letters."""
    return _checked("key", "invalid-key", name, False)


def _path(name: str) -> str:
    return _checked("path", "invalid-path", name, True)


def _checked(what: str, code: str, name: str, dash: bool) -> str:
    if not isinstance(name, str):
        raise _invalid(what, f"must be str, not {type(name).__name__}", code)
    normal = unicodedata.normalize("NFC", name)
    fault = _name_fault(normal, dash)
    if fault:
        raise _invalid(what, fault, code)
    return normal


def _quote(name: str) -> str:
    return urllib.parse.quote(name, safe="/")


def _local_name(path: str) -> str:
    """The name on the disk of a published path. A manifest is data from elsewhere: what would lead out of its folder is refused."""
    if _name_fault(path, True) or os.name == "nt" and ":" in path or os.path.isabs(path) or os.path.splitdrive(path)[0]:
        raise _invalid("path", f"{path!r} in the published set can't be a local file name; nothing was written", "invalid-path")
    return path.replace("/", os.sep)


def manifest_digest(files: Iterable[FileInfo]) -> str:
    """The digest of a set of files, as a publish of exactly these has it (`publish(manifest_digest=…)`)."""
    whole = hashlib.sha256(b"pawl-manifest-1\n")
    for file in sorted(files, key=lambda f: f.path.encode("utf-8")):
        whole.update(_manifest_line(file))
    return whole.hexdigest()


class _Unsaid(enum.Enum):
    """Stands for an argument that wasn't given, where None says something."""

    UNSAID = "…"

    def __repr__(self) -> str:
        return "…"


def _manifest_line(file: FileInfo) -> bytes:
    return f"{file.sha256}\t{file.size}\t{file.content_type}\t{file.path}\n".encode("utf-8")


def _milliseconds(what: str, seconds: float) -> str:
    if not isinstance(seconds, (int, float)) or not math.isfinite(seconds) or seconds < 0:
        raise _invalid(what, "must be a number of seconds, 0 or more")
    return f"{round(seconds * 1000)}ms"


class _Secret(str):
    """A text that repr, str, format and pickle don't give away; its bytes do."""

    def __repr__(self) -> str:
        return "'…'"

    def __str__(self) -> str:
        return "…"

    def __format__(self, spec: str) -> str:
        return "…"

    def __reduce_ex__(self, protocol: object) -> Tuple[Any, ...]:
        raise TypeError("a secret can't be pickled or copied")


def _clear(secret: _Secret) -> str:
    return secret.encode("ascii").decode("ascii")


# --- HTTP -------------------------------------------------------------------------------------------------------------------


class _Incoming(io.RawIOBase):
    """What a socket receives, within a deadline for all of it, or for each piece alone."""

    def __init__(self, sock: socket.socket, idle: float, deadline: Optional[float]) -> None:
        super().__init__()
        self._sock, self._idle, self._deadline = sock, idle, deadline
        self._held = bytearray()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._held:
            n = min(len(buffer), len(self._held))
            buffer[:n] = self._held[:n]
            del self._held[:n]
            return n
        return self._receive(buffer, self._deadline)

    def _receive(self, buffer: Any, deadline: Optional[float]) -> int:
        left = self._idle if deadline is None else deadline - time.monotonic()
        if left <= 0:
            raise socket.timeout("no answer in time")
        self._sock.settimeout(left)
        return self._sock.recv_into(buffer)

    def continues(self, within: float) -> bool:
        """Whether the server wants the body: it says 100, or nothing for so long, as a server does that doesn't know of it. Any
        other answer stays to be read."""
        buffer = bytearray(4096)
        deadline = time.monotonic() + within
        try:
            while b"\r\n" not in self._held or self._held.startswith(b"HTTP/1.1 100") and b"\r\n\r\n" not in self._held:
                n = self._receive(buffer, deadline)
                if n == 0:
                    return False
                self._held += buffer[:n]
        except socket.timeout:
            return not self._held
        if not self._held.startswith(b"HTTP/1.1 100"):
            return False
        del self._held[: self._held.index(b"\r\n\r\n") + 4]
        return True


class _Response(http.client.HTTPResponse):
    """An answer that is read through an _Incoming."""

    def __init__(self, incoming: _Incoming, sock: socket.socket, debuglevel: int = 0, method: Optional[str] = None) -> None:
        super().__init__(sock, debuglevel, method=method)
        self._socket_file = self.fp  # keeps the socket open until this answer is closed
        self.fp = io.BufferedReader(incoming, 64 << 10)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._socket_file.close()


_Place = Tuple[str, str, int]  # scheme, host, port


@dataclasses.dataclass
class _Body:
    """What a request sends. size None means that the length isn't known."""

    source: Union[BinaryIO, _Hashing]
    size: Optional[int]
    expect: bool = False  # wait for the server's word before it is sent

    def pieces(self) -> Iterator[bytes]:
        left = self.size
        while left is None or left > 0:
            try:
                piece = self.source.read(_CHUNK if left is None else min(_CHUNK, left))
                if isinstance(piece, str):
                    raise TypeError('the file gives text; open it with "rb"')
            except BaseException as error:
                raise _SourceFault(error) from error
            if not piece:
                if left:
                    raise _SourceFault(Mismatch("length-mismatch", "the file became shorter while it was uploaded; upload it again"))
                return
            if left is not None:
                left -= len(piece)
            yield piece


class _Connection:
    """One connection, for one request at a time."""

    def __init__(self, place: _Place, context: Optional[ssl.SSLContext]) -> None:
        scheme, host, port = place
        self.place = place
        if scheme == "https":
            self._http: http.client.HTTPConnection = http.client.HTTPSConnection(host, port, context=context)
        else:
            self._http = http.client.HTTPConnection(host, port)
        self._used, self._pid = 0.0, os.getpid()
        self.use = 0  # counts its requests, under the client's lock
        self.spent = False  # the rest of a body was never sent, so that nothing can follow it

    def connect(self, timeout: float) -> None:
        self._http.timeout = min(timeout, _CONNECT_TIMEOUT)
        self._http.connect()

    def alive(self) -> bool:
        """Whether an idle connection can be used again: it isn't old, and the server hasn't closed it."""
        sock = self._http.sock
        return sock is not None and time.monotonic() - self._used < _KEEP_IDLE and not _readable(sock)

    def close(self) -> None:
        self._http.close()

    def own(self) -> bool:
        """Whether this process has made it. After a fork the parent's are the child's as well, but only one of them may use them."""
        return self._pid == os.getpid()

    def abort(self) -> None:
        """End what another thread does on this connection."""
        sock = self._http.sock
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended by itself

    def request(self, method: str, target: str, headers: Mapping[str, str], body: Optional[_Body], idle: float,
                deadline: Optional[float]) -> http.client.HTTPResponse:
        """Send a request and read the head of its answer."""
        sock = self._http.sock
        assert sock is not None
        self._http.putrequest(method, target, skip_accept_encoding=True)
        for name, value in headers.items():
            self._http.putheader(name, value)
        if body is not None and body.size is None:
            self._http.putheader("Transfer-Encoding", "chunked")
        elif body is not None:
            self._http.putheader("Content-Length", str(body.size))
        expects = body is not None and body.expect and body.size != 0
        if expects:
            self._http.putheader("Expect", "100-continue")
        sock.settimeout(idle)
        self._http.endheaders()
        incoming = _Incoming(sock, idle, deadline)
        self._http.response_class = lambda *args, **named: _Response(incoming, *args, **named)  # type: ignore[assignment]
        answered = expects and not incoming.continues(_CONTINUE_TIMEOUT)
        whole = body is None or not answered and self._send(sock, body, idle)
        response = self._http.getresponse()
        self.spent = not whole
        self._used = time.monotonic()
        return response

    def _send(self, sock: socket.socket, body: _Body, idle: float) -> bool:
        """Send a body, until its end or an early answer. Returns whether all of it was sent."""
        plain = not isinstance(sock, ssl.SSLSocket)
        try:
            for piece in body.pieces():
                if plain and _readable(sock):
                    return False
                sock.settimeout(idle)
                if body.size is None:
                    self._http.send(b"%x\r\n%b\r\n" % (len(piece), piece))
                else:
                    self._http.send(piece)
            if body.size is None:
                self._http.send(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            return False  # Perhaps the server has answered before it closed.
        return True


def _json_body(value: Any) -> _Body:
    """A body of JSON. It may hold a lease_id in clear, which stays out of the local variables of calls that fail."""
    text = json.dumps(value).encode("ascii")
    return _Body(io.BytesIO(text), len(text))


def _readable(sock: socket.socket) -> bool:
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([sock], [], [], 0)[0])


class _Answer:
    """An answer whose body is still to be read. finish gives its connection back."""

    def __init__(self, client: Client, connection: _Connection, response: http.client.HTTPResponse, url: str) -> None:
        self._client, self._connection, self._response = client, connection, response
        self.status, self.reason, self.headers, self.url = response.status, response.reason, response.headers, url

    def readinto(self, buffer: Any) -> int:
        return self._response.readinto(buffer)

    def read_whole(self) -> bytes:
        body = bytearray()
        while len(body) <= _MAX_JSON:
            piece = self._response.read(_CHUNK // 4)  # Python 3.9 allocates as much as is asked for.
            if not piece:
                break
            body += piece
        length = self.headers.get("Content-Length")
        if len(body) > _MAX_JSON or length is not None and self.status not in (204, 304) and len(body) != int(length):
            raise http.client.IncompleteRead(bytes(body))
        return bytes(body)

    def finish(self) -> None:
        done = self._response.isclosed()
        reusable = done and not self._response.will_close and not self._connection.spent
        self._response.close()
        self._client._give_back(self._connection, reusable)

    def abort(self) -> None:
        self._response.close()
        self._connection.close()


class Client:
    """Talks to one Pawl server. It may be used from many threads at once.

    `url`, e.g. "http://127.0.0.1:8484" or "https://pawl.example/base", is PAWL_URL when it is None; `credential`, sent as a bearer
    token, is PAWL_CREDENTIAL, or what the file named by PAWL_CREDENTIAL_FILE holds at each request. `timeout` bounds one request and its answer, and in
    uploads and downloads each piece; `retry_for` is how long after its start a call may begin a repetition, 0 means never.
    `context` is for TLS; the default trusts the system's certificates (and SSL_CERT_FILE).
    """

    def __init__(self, url: Optional[str] = None, credential: Optional[str] = None, *, timeout: float = 30.0, retry_for: float = 15.0,
                 context: Optional[ssl.SSLContext] = None) -> None:
        if url is None:
            url = os.environ.get("PAWL_URL", "")
            if not url:
                raise _invalid("PAWL_URL", "is not set; set it to the server's address, e.g. http://127.0.0.1:8484, or give Client(url=…)")
        try:
            parts = urllib.parse.urlsplit(url)
            place = _place(parts)  # looks at the port
        except (ValueError, TypeError, AttributeError):
            raise _invalid("url", "must look like http://127.0.0.1:8484, with a port up to 65535") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or re.search("[\\0- \\x7f]", url) or not parts.path.isascii():
            raise _invalid("url", "must look like http://127.0.0.1:8484, without spaces; other letters of a path are %-escaped")
        if parts.username is not None or parts.password is not None:
            raise _invalid("url", "must not hold a user or password; a credential has its own setting")
        if parts.query or parts.fragment:
            raise _invalid("url", "must not hold a query or fragment")
        _milliseconds("timeout", timeout)
        _milliseconds("retry_for", retry_for)
        if timeout <= 0:
            raise _invalid("timeout", "must be more than 0 seconds")
        self.url = url.rstrip("/")
        self._place = place
        self._credential = _Secret(_credential() if credential is None else credential)
        self._credential_file = _credential_file() if credential is None else ""
        if not re.fullmatch("[!-~]*", self._credential):
            raise _invalid("credential", "must be printable ASCII without spaces")
        self._timeout, self._retry_for, self._context = timeout, retry_for, context
        self._lock = threading.Lock()
        self._idle: List[_Connection] = []
        _locking.add(self)

    def _forked(self) -> None:
        """Begin anew in a forked child: another thread of the parent may have held the lock, and the connections are the parent's."""
        self._lock = threading.Lock()
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __reduce__(self) -> Tuple[Any, ...]:
        raise TypeError("a Client can't be pickled, since it holds a credential; make one in each process")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections. Calls that run go on, and later ones open new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    # Connections

    def _take(self, place: _Place, timeout: float, fresh: bool) -> _Connection:
        with self._lock:
            kept = [c for c in self._idle if c.place == place]
            found = kept[-1] if kept and not fresh else None
            if found is not None:
                self._idle.remove(found)
        if found is not None:
            if found.alive():
                return found
            found.close()
            return self._take(place, timeout, fresh)
        if place[0] == "https" and self._context is None:
            self._context = ssl.create_default_context()
        made = _Connection(place, self._context)
        try:
            made.connect(timeout)
        except ssl.SSLError as error:
            raise _Lost(error, sent=False, permanent=True) from error
        except OSError as error:
            made.close()
            permanent = isinstance(error, socket.gaierror) and error.errno == socket.EAI_NONAME
            raise _Lost(error, sent=False, permanent=permanent) from error
        return made

    def _give_back(self, connection: _Connection, reusable: bool) -> None:
        with self._lock:
            connection.use += 1
            if reusable and len(self._idle) < _MAX_IDLE and connection.own():
                self._idle.append(connection)
                return
        connection.close()

    def _abort(self, connection: _Connection, use: int) -> None:
        """End a request of another thread, unless it has ended and the connection serves another one."""
        with self._lock:
            if connection.use == use:
                connection.abort()

    def _renew_credential(self) -> None:
        """Take over what the credential's file holds by now. What can't be read, or isn't there yet, leaves the last one."""
        try:
            found = _Secret(_read_credential(self._credential_file) if self._credential_file else "")
        except (OSError, UnicodeError):
            return
        if found and re.fullmatch("[!-~]*", found):
            self._credential = found

    def _send(self, method: str, url: str, headers: Mapping[str, str], body: Optional[_Body] = None, *, deadline: Optional[float] = None,
              fresh: bool = False, watch: Optional[Callable[[_Connection], None]] = None) -> _Answer:
        """Send one request. Its failures are _Lost, or _SourceFault."""
        parts = urllib.parse.urlsplit(url)
        place = _place(parts)
        timeout = self._timeout if deadline is None else max(deadline - time.monotonic(), 0.001)
        connection = self._take(place, timeout, fresh)
        if watch is not None:
            watch(connection)
        sent = {"User-Agent": "pawl-python", "Accept-Encoding": "identity", **headers}
        if place == self._place:
            self._renew_credential()
            if self._credential:
                sent["Authorization"] = _Secret("Bearer " + _clear(self._credential))
        target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        try:
            response = connection.request(method, target, sent, body, min(self._timeout, timeout), deadline)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            # The frames of http.client have the head of the request in their local variables, with the lease_id in clear.
            raise _Lost(error.with_traceback(None), sent=True) from error
        except BaseException:
            connection.close()
            raise
        return _Answer(self, connection, response, url)

    # Calls

    def _key_url(self, key: str, resource: str = "", query: Optional[Mapping[str, Any]] = None) -> str:
        url = f"{self.url}/v1/keys/{_quote(key)}" + (f"/-/{resource}" if resource else "")
        return url + ("?" + urllib.parse.urlencode(query) if query else "")

    def _file_url(self, key: str, version: Version, path: str) -> str:
        return self._key_url(key, f"generations/{version.token}/files/{_quote(path)}", {"revision": version.revision})

    def _once(self, method: str, url: str, *, body: Any = None, lease: Optional[_Secret] = None, headers: Optional[Mapping[str, str]] = None,
              wait: float = 0.0, timeout: Optional[float] = None, watch: Optional[Callable[[_Connection], None]] = None) -> Tuple[int, Any]:
        """One attempt of a call with a JSON body, or none, and a JSON answer, or none."""
        sent: Dict[str, str] = {"Accept": "application/json, application/problem+json", **(headers or {})}
        if lease is not None:
            sent["Pawl-Lease"] = lease
        data: Optional[_Body] = None
        if body is not None:
            sent["Content-Type"] = "application/json"
            data = _json_body(body)
        elif method in ("POST", "PUT", "PATCH"):
            data = _Body(io.BytesIO(), 0)
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout) + wait
        return _answered(self._send(method, url, sent, data, deadline=deadline, watch=watch))

    def _call(self, method: str, url: str, *, changes: bool = False, within: Optional[float] = None, **named: Any) -> Tuple[int, Any]:
        """A call, with repetitions."""
        return self._repeated(f"{method} {url.split('?')[0]}", changes, lambda: self._once(method, url, **named), within)

    def _repeated(self, what: str, changes: bool, attempt: Callable[[], _T], within: Optional[float] = None) -> _T:
        start, maybe_done = time.monotonic(), False
        within = self._retry_for if within is None else within
        for tries in itertools.count():
            try:
                return attempt()
            except _SourceFault as fault:
                raise fault.error from None
            except (PawlError, _Lost) as failed:
                error: Union[PawlError, _Lost] = failed
            again, pause = _judge(error, tries)
            maybe_done = maybe_done or changes and _may_have_happened(error)
            if not again or time.monotonic() - start + pause > within:
                raise self._final(error, again, maybe_done) from (error.__cause__ if isinstance(error, _Lost) else None)
            _log.debug("request_repeated call=%s attempt=%d pause=%.3f error=%s", what, tries + 1, pause, error)
            time.sleep(pause)
        raise AssertionError("unreachable")

    def _final(self, error: Union[PawlError, _Lost], again: bool, maybe_done: bool) -> PawlError:
        if isinstance(error, PawlError) and not again:
            return error  # the server's clear word, also about earlier attempts
        if maybe_done:
            return OutcomeUnknown("outcome-unknown", f"no answer came ({error}); the change may or may not have happened, and making the "
                                  "same call again is safe and tells", retryable=True)
        if isinstance(error, PawlError):
            return error
        return Unreachable("unreachable", f"the server at {self.url} can't be reached: {error}", retryable=not error.permanent)

    # Leases

    def lease(self, key: str, ttl: float = 30.0, *, wait: float = 0.0, holder: Optional[str] = None,
              labels: Optional[Mapping[str, str]] = None) -> Lease:
        """The lease of a key, for `with`: it is acquired at the beginning of the block (see Lease.acquire), renewed in the background at a
        third of `ttl` seconds, and released at the end.

        While another holder has it, acquiring waits for `wait` seconds and then raises LeaseHeld. `holder` says who works on it, for
        people; it is PAWL_HOLDER or user@host:pid when it is None. `labels` are shown with the generation, e.g. a job number.
        """
        _milliseconds("ttl", ttl)
        _milliseconds("wait", wait)
        return Lease(self, _key(key), ttl, wait, holder or os.environ.get("PAWL_HOLDER") or _default_holder(), dict(labels or {}))

    # Readers

    def current(self, key: str) -> Optional[Pointer]:
        """What is current under a key, None while nothing is."""
        try:
            return _read(Pointer, self._call("GET", self._key_url(_key(key)))[1])
        except NotFound as error:
            self._must_be_of_a_key(error)
            return None

    def wait_for_change(self, key: str, version: Optional[_AnyVersion] = None, timeout: float = 60.0) -> Optional[Pointer]:
        """What is current as soon as its version is another one than `version`; None as version waits for the first publish. When
        nothing has changed after `timeout` seconds the answer is None."""
        _milliseconds("timeout", timeout)
        deadline, early = time.monotonic() + timeout, 0
        key = _key(key)
        headers = {"If-None-Match": _tag("version", version)} if version is not None else {}
        while True:
            left = max(deadline - time.monotonic(), 0.0)
            part = min(left, _POINTER_PART)
            url = self._key_url(key, query={"wait": _milliseconds("timeout", part)})
            asked = time.monotonic()
            try:
                status, found = self._call("GET", url, headers=headers, wait=part)
                if status != 304:
                    return _read(Pointer, found)
            except NotFound as error:
                self._must_be_of_a_key(error)
            if left <= part and time.monotonic() >= deadline - 0.001:
                return None
            # An answer before its time, as of a proxy that keeps answers, mustn't make this a busy loop.
            early = early + 1 if time.monotonic() - asked < part / 2 else 0
            if early:
                time.sleep(min(_drawn_pause(early - 1), max(deadline - time.monotonic(), 0.0)))

    def _must_be_of_a_key(self, error: NotFound) -> None:
        """Raise an error that says that there is no such address, and not that there is nothing under the key."""
        if not _names_key(error):
            if not error.foreign:
                error.detail = f"{error.detail}; is {self.url} the address of the Pawl server, with the path under which it is served?"
            raise error

    def open(self, key: str, path: Optional[str] = None, *, version: Optional[_AnyVersion] = None) -> Download:
        """Open a file of the current version for reading, by default its primary file; of another version with `version`. All versions may be
        given as a Version, as the Pointer or Receipt that has it, or as its text.

        What is read comes from the permanent address of that version, over breaks of the connection. Length and SHA-256 are
        checked before the last bytes are handed out; what doesn't match is a Mismatch. Close it, or use `with`.
        """
        key = _key(key)
        found = version if version is not None else self._pointer(key)
        at = _version("version", found)
        if path is None:
            if not isinstance(found, (Pointer, Receipt)):
                raise _invalid("path", f"must be given: the version {at} alone doesn't tell its primary file, as a Pointer or Receipt does")
            path = found.primary
            if not path:
                raise _invalid("path", "must be given: there is no primary file")
        return Download(_Stream(self, self._file_url(key, at, _path(path))))

    def _pointer(self, key: str) -> Pointer:
        found = self.current(key)
        if found is None:
            raise NotFound("not-found", f"{key} has no current version", status=404)
        return found

    def download(self, key: str, target: Union[str, os.PathLike[str]], path: Optional[str] = None) -> Pointer:
        """Write a file of the current version, by default its primary file, to `target`. It is replaced in one step once every byte
        was checked; on any error it stays as it was. Returns the version that was read."""
        pointer = self._pointer(_key(key))
        with self.open(key, path, version=pointer) as source:
            _write_file(source, os.fspath(target))
        return pointer

    def download_tree(self, key: str, folder: Union[str, os.PathLike[str]]) -> Pointer:
        """Write all files of the current version into `folder`, which must not exist yet or be empty. It appears once every byte was
        checked, and the list of files as well. Names that lead out of it, and a file with the name of another one's folder, which no disk can
        hold, are refused before anything is fetched."""
        key = _key(key)
        pointer = self._pointer(key)
        target = os.path.abspath(os.fspath(folder))
        if os.path.lexists(target) and (os.path.islink(target) or not os.path.isdir(target) or os.listdir(target)):
            raise _invalid("folder", f"{target} is there already; name a new or empty one")
        whole, count = hashlib.sha256(b"pawl-manifest-1\n"), 0
        above: List[str] = []  # the files before this one whose paths it begins with
        for file in self.files(key, version=pointer):
            _local_name(file.path)
            while above and not file.path.startswith(above[-1]):
                above.pop()
            for other in above:
                if file.path.startswith(other + "/"):
                    raise _invalid("key", f"{other!r} and {file.path!r} can't both be in one folder on a disk; fetch them one by one by download(key, "
                                   "target, path). Nothing was written")
            above.append(file.path)
            whole.update(_manifest_line(file))
            count += 1
        if whole.hexdigest() != pointer.manifest_digest or count != pointer.files:
            raise Mismatch("digest-mismatch", "the list of files is not the published one",
                           members={"promised": pointer.manifest_digest, "came": whole.hexdigest()})
        os.makedirs(os.path.dirname(target), exist_ok=True)
        scratch = tempfile.mkdtemp(prefix="." + os.path.basename(target) + ".pawl-", dir=os.path.dirname(target))
        try:
            for file in self.files(key, version=pointer):
                name = os.path.join(scratch, _local_name(file.path))
                os.makedirs(os.path.dirname(name), exist_ok=True)
                url = self._file_url(key, pointer.version, file.path)
                with Download(_Stream(self, url, file)) as source, io.open(name, "xb") as sink:
                    shutil.copyfileobj(source, sink, _CHUNK)
            os.chmod(scratch, 0o777 & ~_umask())
            if os.path.isdir(target):
                os.rmdir(target)
            os.rename(scratch, target)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        return pointer

    def files(self, key: str, *, version: Optional[_AnyVersion] = None) -> Iterator[FileInfo]:
        """The files of a version, by default the current one, in order of their paths. A page is asked for at a time; all of them are of
        the one version."""
        key = _key(key)
        found = _version("version", version if version is not None else self._pointer(key))
        url = self._key_url(key, f"generations/{found.token}/files")
        after = ""
        while True:
            query: Dict[str, Any] = {"revision": found.revision, "limit": _PAGE, **({"after": after} if after else {})}
            page = self._call("GET", url + "?" + urllib.parse.urlencode(query))[1]
            for entry in page["files"]:
                yield _read(FileInfo, entry)
            following = page.get("next") or ""
            if not following:
                return
            if following.encode("utf-8") <= after.encode("utf-8"):
                raise Mismatch("digest-mismatch", f"the server's pages don't go on after {after!r}")
            after = following

    def history(self, key: str) -> Iterator[Generation]:
        """The generations of a key, newest first, with their receipts and with the rejections of those that came late."""
        url, before = self._key_url(_key(key), "generations"), 0
        while True:
            page = self._call("GET", url + (f"?before={before}" if before else ""))[1]
            for entry in page["generations"]:
                yield _read(Generation, entry)
            before = page.get("next") or 0
            if not before:
                return

    def pointers(self, prefix: str = "") -> Iterator[Pointer]:
        """What is current under all keys with a prefix, in order of the keys."""
        after = ""
        while True:
            query = {name: value for name, value in (("prefix", prefix), ("after", after), ("limit", _PAGE)) if value}
            page = self._call("GET", f"{self.url}/v1/keys?{urllib.parse.urlencode(query)}")[1]
            for entry in page["keys"]:
                yield _read(Pointer, entry)
            after = page.get("next") or ""
            if not after:
                return

    def resolve(self, keys: Iterable[str]) -> List[Resolved]:
        """What many keys resolve to at one point in time: one entry for each, in their order."""
        if isinstance(keys, str):
            raise _invalid("keys", "must be a list of keys, not one text")
        body = {"keys": [_key(key) for key in keys]}
        return [_read(Resolved, entry) for entry in self._call("POST", self.url + "/v1/resolve", body=body)[1]["keys"]]

    def from_env(self) -> Lease:
        """The lease of the `pawl run` around this process, from PAWL_KEY, PAWL_TOKEN and PAWL_LEASE_ID. `pawl run` renews it, and
        releases it: this object does neither, with or without `with`. `pawl run` also publishes, once the command has ended well: upload, and
        leave publish() to it. Its `lost` is set, and its check() raises, once a call of its own was fenced."""
        missing = [name for name in ("PAWL_KEY", "PAWL_TOKEN", "PAWL_LEASE_ID") if not os.environ.get(name)]
        if missing:
            raise _invalid(missing[0], "is not set; run this program by `pawl run --key KEY -- COMMAND`")
        token, lease_id = os.environ["PAWL_TOKEN"], os.environ["PAWL_LEASE_ID"]
        if not re.fullmatch("[1-9][0-9]{0,15}", token):
            raise _invalid("PAWL_TOKEN", "must be a token in digits alone")
        if not re.fullmatch("[0-9a-fA-F]{32}", lease_id):
            raise _invalid("PAWL_LEASE_ID", "must be 32 hex digits")
        return Lease._granted(self, _key(os.environ["PAWL_KEY"]), int(token), _Secret(lease_id))


def _place(parts: urllib.parse.SplitResult) -> _Place:
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _credential() -> str:
    file = _credential_file()
    return _read_credential(file) if file else os.environ.get("PAWL_CREDENTIAL", "")


def _credential_file() -> str:
    return "" if os.environ.get("PAWL_CREDENTIAL") else os.environ.get("PAWL_CREDENTIAL_FILE", "")


def _read_credential(file: str) -> str:
    with io.open(file, encoding="utf-8") as source:
        return source.read(16384).strip()


def _default_holder() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}:{os.getpid()}"


def _umask() -> int:
    """The process's umask. Reading it means setting it, which other threads would see; so a folder is made to look at."""
    with tempfile.TemporaryDirectory() as outer:
        probe = os.path.join(outer, "probe")
        os.mkdir(probe)
        return 0o777 & ~stat.S_IMODE(os.stat(probe).st_mode)


def _write_file(source: BinaryIO, target: str) -> None:
    target = os.path.realpath(target)
    folder = os.path.dirname(target)
    descriptor, scratch = tempfile.mkstemp(prefix="." + os.path.basename(target)[:100] + ".pawl-", dir=folder)
    try:
        with io.open(descriptor, "wb") as sink:
            shutil.copyfileobj(source, sink, _CHUNK)
        mode = stat.S_IMODE(os.stat(target).st_mode) if os.path.exists(target) else 0o666 & ~_umask()
        os.chmod(scratch, mode)
        os.replace(scratch, target)
    except BaseException:
        os.unlink(scratch)
        raise


def _answered(answer: _Answer) -> Tuple[int, Any]:
    """Read an answer whole. A refusal is its PawlError; one that breaks off, or isn't what a Pawl server says, is as good as lost."""
    try:
        body = answer.read_whole()
        answer.finish()
    except (OSError, ValueError, http.client.HTTPException) as error:
        answer.abort()
        raise _Lost(error, sent=True) from error
    except BaseException:
        answer.abort()
        raise
    if answer.status >= 300 and answer.status != 304:
        raise _refusal(answer, body)
    if answer.status in (204, 304):
        return answer.status, None
    try:
        value = json.loads(body)
        if not isinstance(value, dict):
            raise ValueError("it is no JSON object")
        return answer.status, value
    except ValueError as error:
        raise _Lost(ValueError(f"answer {answer.status} isn't readable: {error}"), sent=True) from error


def _refusal(answer: _Answer, body: bytes) -> PawlError:
    """The error that an answer tells."""
    retry_after = _retry_after(answer.headers)
    if answer.headers.get_content_type() == "application/problem+json":
        try:
            members = json.loads(body)
            code = members.pop("code")
            if isinstance(code, str) and code:
                for name in ("type", "title", "status"):
                    members.pop(name, None)
                detail, retryable = str(members.pop("detail", "")), members.pop("retryable", False) is True
                request_id = str(members.pop("request_id", ""))
                if code == "internal" and request_id:
                    detail = f"{detail} (request {request_id})".strip()
                if retry_after:
                    members.setdefault("retry_after", retry_after)
                return _kind(code, answer.status)(code, detail, status=answer.status, retryable=retryable, request_id=request_id, members=members)
        except (ValueError, AttributeError, KeyError):
            pass  # as foreign as no problem document
    status = f"{answer.status} {answer.reason}".strip()
    code = _FOREIGN.get(answer.status, f"http-{answer.status}")
    detail = f"the answer {status} is not Pawl's own; is {answer.url.split('?')[0]} an address of a Pawl server?"
    if answer.status >= 500:
        detail = f"the server, or a proxy before it, answered {status}"
    return _kind(code, answer.status)(code, detail, status=answer.status, foreign=True, members={"retry_after": retry_after} if retry_after else None)


def _names_key(error: PawlError) -> bool:
    """Whether a not-found is about a key, and not about the address, which is none of the server's or no server's at all."""
    return not error.foreign and "key" in error.members


def _drawn_pause(tries: int) -> float:
    """A pause that is drawn at random below a bound that doubles, and from its half on."""
    bound = min(_FIRST_PAUSE * 2 ** min(tries, 16), _MAX_PAUSE)
    return random.uniform(bound / 2, bound)


def _retry_after(headers: http.client.HTTPMessage) -> int:
    """Retry-After (RFC 9110, 10.2.3) in seconds. A date is compared with the Date of the same answer: one machine's clock."""
    value = headers.get("Retry-After", "")
    if re.fullmatch("[0-9]{1,9}", value):
        return int(value)
    try:
        until, date = email.utils.parsedate_to_datetime(value), email.utils.parsedate_to_datetime(headers.get("Date", ""))
        return max(int((until - date).total_seconds()), 0)
    except (TypeError, ValueError, IndexError):
        return 0


def _judge(error: Union[PawlError, _Lost], tries: int) -> Tuple[bool, float]:
    """Whether the failure of an attempt is worth a repetition, and after which pause: drawn at random below a bound that doubles."""
    pause = random.uniform(0, min(_FIRST_PAUSE * 2 ** min(tries, 16), _MAX_PAUSE))
    if isinstance(error, _Lost):
        return not error.permanent, pause
    if isinstance(error, (Fenced, LeaseHeld)):
        return False, 0.0  # the fence's word is final, and waiting for a lease is the server's business
    again = error.retryable or error.code in ("unavailable", "outcome-unknown", "length-mismatch", "rate-limited")
    return again, max(pause, float(error._number("retry_after") or 0))


def _may_have_happened(error: Union[PawlError, _Lost]) -> bool:
    if isinstance(error, _Lost):
        return error.sent
    # A proxy's 502 or 504 says nothing about what became of the request behind it.
    return isinstance(error, OutcomeUnknown) or error.foreign and error.status >= 500


# --- Downloads --------------------------------------------------------------------------------------------------------------


class _Stream(io.RawIOBase):
    """A file as it comes from its permanent address. It goes on by Range after a break, and hands its last byte out only when length and
    SHA-256 are good."""

    def __init__(self, client: Client, url: str, known: Optional[FileInfo] = None) -> None:
        super().__init__()
        self._client, self._url = client, url
        self.size: Optional[int] = known.size if known else None
        self.sha256 = known.sha256 if known else ""
        self.content_type = ""
        self._known = known is not None
        self._etag = f'"{known.sha256}"' if known else ""
        self._at = 0
        self._hash = hashlib.sha256()
        self._done = False
        self._answer: Optional[_Answer] = None
        self._connect()

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            (answer.finish if self._done else answer.abort)()
        super().close()

    def readinto(self, buffer: Any) -> int:
        if self.closed:
            raise ValueError("read of closed file")
        view = memoryview(buffer).cast("B")
        breaks = 0
        while not self._done and len(view) > 0:
            error: Optional[BaseException] = None
            try:
                n = self._answer.readinto(view) if self._answer is not None else 0
            except (OSError, ValueError, http.client.HTTPException) as broken:
                n, error = 0, broken
            self._at += n
            self._hash.update(view[:n])
            if self.size is not None and self._at >= self.size or n == 0 and error is None and self.size is None:
                self._verify()
                self._done = True
            if n > 0:
                return n
            if self._done:
                break
            breaks += 1
            if not self._etag or breaks > _MAX_BREAKS:
                raise Unavailable("unavailable", f"the download broke off after {self._at} bytes: {error or 'the connection ended'}", retryable=True)
            if self._answer is not None:
                self._answer.abort()
                self._answer = None
            self._connect()
        return 0

    def _verify(self) -> None:
        came = self._hash.hexdigest()
        if self.size is not None and self._at != self.size:
            raise Mismatch("length-mismatch", "the download has another length than promised",
                           members={"promised": str(self.size), "came": str(self._at)})
        if self.sha256 and came != self.sha256:
            raise Mismatch("digest-mismatch", "the download's SHA-256 is not the published one", members={"promised": self.sha256, "came": came})

    def _connect(self) -> None:
        self._client._repeated(f"GET {self._url}", False, self._attempt)

    def _attempt(self) -> None:
        answer, promise = self._fetch()
        if answer.status >= 300:
            _answered(answer)
        try:
            self._accept(answer, promise)
        except BaseException:
            answer.abort()
            raise
        self._answer = answer
        if self.size == 0:
            self._verify()
            self._done = True

    def _fetch(self) -> Tuple[_Answer, http.client.HTTPMessage]:
        """Ask the permanent address, and follow where it sends, e.g. to the blob store. The head that says what the file is comes from Pawl: a store
        knows its objects by other tags. No secret goes to another host."""
        url = self._url
        promise: Optional[http.client.HTTPMessage] = None
        for _ in range(_MAX_REDIRECTS + 1):
            headers = {}
            if self._at > 0:
                headers["Range"] = f"bytes={self._at}-"
                if promise is None:
                    headers["If-Range"] = self._etag
            answer = self._client._send("GET", url, headers)
            if answer.status not in (301, 302, 303, 307, 308):
                if promise is not None and answer.status >= 300:
                    answer.abort()
                    raise _kind("", answer.status)(
                        _FOREIGN.get(answer.status, f"http-{answer.status}"), "the blob store, where the server has sent this download, answered "
                        f"{answer.status} {answer.reason}", status=answer.status, foreign=True, retryable=answer.status >= 500)
                return answer, promise or answer.headers
            if answer.headers.get("Repr-Digest"):
                promise = answer.headers
            url = urllib.parse.urljoin(url, answer.headers.get("Location", ""))
            answer.abort()
            if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
                break
        raise Refused("http-307", "the download was sent on too often, or nowhere", foreign=True)

    def _accept(self, answer: _Answer, promise: http.client.HTTPMessage) -> None:
        etag = promise.get("ETag", "")
        if self._at > 0 or self._known:
            whole = self._at == 0 and answer.status == 200
            part = self._at > 0 and answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {self._at}-")
            if not (whole or part) or etag != self._etag:
                raise Mismatch("digest-mismatch", "the file changed while it was downloaded; start again")
            self.content_type = self.content_type or answer.headers.get("Content-Type", "")
            return
        length = answer.headers.get("Content-Length")
        self.size = int(length) if length is not None else None
        self.content_type = answer.headers.get("Content-Type", "")
        self._etag = "" if etag.startswith("W/") else etag  # a weak tag doesn't identify bytes: no resuming
        self.sha256 = _promised_digest(promise)


def _promised_digest(headers: http.client.HTTPMessage) -> str:
    """The SHA-256 in Repr-Digest (RFC 9530), or an ETag that is one, in hex; "" when there is none."""
    found = re.search("(?:^|,)\\s*sha-256=:([A-Za-z0-9+/]{43}=):", headers.get("Repr-Digest", ""))
    if found:
        return base64.b64decode(found.group(1)).hex()
    tag = headers.get("ETag", "").strip('"')
    return tag if re.fullmatch("[0-9a-f]{64}", tag) else ""


class Download(io.BufferedReader):
    """A published file that is read as any binary file; see Client.open."""

    def __init__(self, stream: _Stream) -> None:
        super().__init__(stream, _CHUNK)
        self._stream = stream

    @property
    def size(self) -> Optional[int]:
        """Bytes, None when the server didn't say."""
        return self._stream.size

    @property
    def sha256(self) -> str:
        """What the bytes are checked against, in hex."""
        return self._stream.sha256

    @property
    def content_type(self) -> str:
        """The type under which the file is served."""
        return self._stream.content_type


# --- The lease ------------------------------------------------------------------------------------------------------------


class Lease:
    """The grant of a key to this worker, with its fencing token. Made by Client.lease or pawl.lease; used by `with`:

    - The block begins with acquire(). From then on the lease is renewed in the background.
    - At the end of the block, however it is left, the renewing ends and the lease is released, unless it is lost. Leaving without a publish is no
      error. An exception of the block passes through.
    - When the server has said meanwhile that the lease is lost, nothing was published, and no call of this lease has told so, leaving the block
      without an exception raises Fenced: the work didn't count, and whoever gave it out must not think so. A lease that ran out by the own
      clock is asked about first. When the server doesn't answer then, the block is left as if the lease were good.

    `lost` is a threading.Event. It is set once the server has refused this grant, and when the lease has run out by the own clock because no
    renewal was answered in time. Work that wants no more than one worker at a time ends then; check() raises what has happened. An expiry stays told:
    when a later renewal is answered, `remaining` is positive again, but `lost` stays set and check() goes on raising LeaseExpired, since whoever
    saw it may have stopped already. Nobody had the key meanwhile then, and publish() is as good as ever. A paused process
    looks at no clock, so that a lease that looks good may be lost: only the fence, at the publish, decides. publish() may also be tried after
    the lease ran out by the own clock, and succeeds if nobody newer has published.

    The methods may be called from many threads at once.
    """

    def __init__(self, client: Client, key: str, ttl: float, wait: float, holder: str, labels: Dict[str, str]) -> None:
        self.key, self.holder = key, holder
        self.lost = threading.Event()
        self.effect_prefix = ""
        self._client, self._wait, self._labels = client, wait, labels
        self._ttl, self._sent = float(ttl), 0.0
        self._token: Optional[int] = None
        self._id = _Secret()
        self._lock = threading.Lock()
        self._cause: Optional[PawlError] = None
        self._own = True  # acquired here, hence renewed and released here
        self._published = self._ended = False
        self._told = False  # a call of this lease has raised Fenced
        self._handing_back = 0  # publishes under way that also release
        self._stop = threading.Event()
        self._threads: List[threading.Thread] = []
        self._renewing: Optional[Tuple[_Connection, int]] = None  # the renewal under way
        self._pid = os.getpid()
        _locking.add(self)

    def _forked(self) -> None:
        """Begin anew in a forked child: a thread that isn't there any more may have held these locks."""
        self._lock = threading.Lock()
        self.lost, self._stop = _event_like(self.lost), _event_like(self._stop)

    @classmethod
    def _granted(cls, client: Client, key: str, token: int, lease_id: _Secret) -> Lease:
        made = cls(client, key, math.inf, 0.0, "", {})
        made._token, made._id, made._own, made._sent = token, lease_id, False, _now()
        made.effect_prefix = os.environ.get("PAWL_EFFECT_PREFIX", "")
        return made

    def __repr__(self) -> str:
        return f"<Lease of {self.key!r}, token {self._token}{', lost' if self.lost.is_set() else ''}>"

    def __reduce__(self) -> Tuple[Any, ...]:
        raise TypeError("a Lease can't be pickled, since it holds a secret; hand environment() to a process that shall work under it")

    def __enter__(self) -> Lease:
        return self if not self._own else self.acquire()

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[types.TracebackType]) -> None:
        if kind is None:
            self._ask_late()
        self.release()
        if kind is None and isinstance(self._cause, Fenced) and not (self._published or self._told) and self._pid == os.getpid():
            raise self._fenced()

    @property
    def token(self) -> int:
        """The fencing token."""
        if self._token is None:
            raise RuntimeError("the lease isn't acquired yet: use it by `with`, or call acquire()")
        return self._token

    @property
    def ttl(self) -> float:
        """Seconds that the lease lasts from each renewal; infinite for one of from_env(), which isn't renewed here."""
        return self._ttl

    @property
    def remaining(self) -> float:
        """Seconds that the lease lasts still by the own clock, counted from when its last good renewal was sent; negative when it ran
        out. The clock goes on while the machine sleeps, where the system has such a one."""
        with self._lock:
            return self._ttl - (_now() - self._sent)

    def check(self) -> None:
        """Raise Fenced when the lease is lost, or LeaseExpired when it ran out by the own clock; see `lost`."""
        self._expire()
        with self._lock:
            cause = self._cause
            self._told = self._told or isinstance(cause, Fenced)
        if cause is not None:
            raise copy.copy(cause)

    def acquire(self) -> Lease:
        """Acquire the lease and start to renew it; `with` calls this. Raises LeaseHeld when another holder has it (after waiting). A Lease is
        for one grant; release() ends it."""
        with self._lock:
            if self._token is not None or self._ended:
                raise RuntimeError("this lease was acquired before; make a new one for each grant")
        deadline, redrawn = time.monotonic() + self._wait, 0
        lease_id = _Secret(secrets.token_hex(16))
        while True:
            left = max(deadline - time.monotonic(), 0.0)
            part = min(left, _ACQUIRE_PART)
            try:
                granted = self._ask(lease_id, part)
                break
            except LeaseHeld:
                if left <= part:
                    raise
            except Fenced:
                # The answer to an earlier attempt was lost for so long that its grant was superseded or given up: begin anew.
                redrawn += 1
                if redrawn > 3:
                    raise
                lease_id = _Secret(secrets.token_hex(16))
            except BaseException as error:
                if isinstance(error, OutcomeUnknown) or not isinstance(error, PawlError):
                    self._give_up(lease_id)
                raise
        with self._lock:
            self._id, self._token = lease_id, granted["token"]
            self.effect_prefix = str(granted.get("effect_prefix") or "")
        if _now() - self._sent >= self._ttl / 3:
            self._settle()
        for work in (self._renew_on, self._watch):
            thread = threading.Thread(target=work, name=f"pawl {self.key}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def _ask(self, lease_id: _Secret, wait: float) -> Dict[str, Any]:
        body: Dict[str, Any] = {"holder": self.holder, "ttl": _milliseconds("ttl", self._ttl), "lease_id": lease_id}
        if wait > 0:
            body["wait"] = _milliseconds("wait", wait)
        if self._labels:
            body["labels"] = self._labels
        url = self._client._key_url(self.key, "lease")

        def attempt() -> Tuple[int, Any]:
            self._sent = _now()
            return self._client._once("POST", url, body=body, wait=wait)

        granted: Dict[str, Any] = self._client._repeated("acquire", True, attempt)[1]
        self._ttl = granted["ttl_ms"] / 1000
        return granted

    def _settle(self) -> None:
        """Renew a grant that came late. The TTL of one that waited in the server counts from its grant, and how long ago that was can't be
        told by the own clock; a renewal puts both clocks together again."""
        try:
            self._renew(self._client._timeout)
        except Fenced:
            raise
        except (PawlError, _Lost):
            pass  # it is granted all the same, and renewed at once

    def _give_up(self, lease_id: _Secret) -> None:
        """Release what may have been granted for a caller who is gone. Failing that, it expires."""
        try:
            self._client._once("DELETE", self._client._key_url(self.key, "lease"), lease=lease_id, timeout=2.0)
        except (PawlError, _Lost):
            pass

    # Renewing

    def _ask_late(self) -> None:
        """Ask the server before the block is left with a lease that ran out by the own clock: a worker that was stopped may come here
        before a renewal in the background was answered. A good renewal means that nobody has taken over."""
        with self._lock:
            settled = self._token is None or self._published or self._ended or isinstance(self._cause, Fenced)
        if settled or not self._own or self._pid != os.getpid() or self.remaining > 0:
            return
        try:
            self._client._repeated("renewal", False, lambda: self._renew(5.0), within=5.0)
        except PawlError as error:
            if _lost_for_good(error):
                self._refused(error)

    def _renew(self, timeout: float, watch: Optional[Callable[[_Connection], None]] = None) -> None:
        sent = _now()
        url = self._client._key_url(self.key, "lease")
        renewed = self._client._once("PATCH", url, body={}, lease=self._id, timeout=timeout, watch=watch)[1]
        with self._lock:
            self._sent, self._ttl = sent, renewed["ttl_ms"] / 1000

    def _watch_connection(self, connection: _Connection) -> None:
        with self._lock:
            self._renewing = connection, connection.use
        if self._stop.is_set():
            connection.abort()

    def _renew_on(self) -> None:
        failures, warned = 0, -math.inf
        while self._pause(failures):
            try:
                self._renew(max(self._ttl / 3, 0.25), self._watch_connection)
                failures = 0
            except (PawlError, _Lost) as error:
                if self._stop.is_set():
                    return
                if isinstance(error, PawlError) and _lost_for_good(error):
                    self._refused(error)
                    return
                failures += 1
                level = logging.DEBUG
                if failures == 1 or _now() - warned >= _WARN_EVERY:
                    level, warned = logging.WARNING, _now()
                _log.log(level, "renewal_failed key=%s token=%s remaining=%.3f failures=%d error=%s", self.key, self._token, self.remaining, failures, error)
            except Exception:
                if self._stop.is_set():
                    return
                failures += 1
                _log.exception("renewal_failed key=%s token=%s", self.key, self._token)

    def _pause(self, failures: int) -> bool:
        """Wait for the next renewal: a third of the TTL after the last good one was sent, sooner after a failure. False at the end."""
        until = _now() + _renewal_pause(self._ttl, failures) if failures else self._sent + self._ttl / 3
        while True:
            left = until - _now()
            if left <= 0:
                return not self._stop.is_set()
            # Waiting stands still while the machine sleeps, the clock doesn't: hence in short steps.
            if self._stop.wait(min(left, 1.0)):
                return False

    def _watch(self) -> None:
        """Tell when the lease runs out by the own clock, whatever the renewing thread is waiting for."""
        while not self._stop.is_set() and not self._expire():
            self._stop.wait(min(max(self.remaining, 0.001), 1.0))

    def _expire(self) -> bool:
        with self._lock:
            if self._cause is None and not self._ended and self._token is not None and self._ttl - (_now() - self._sent) <= 0:
                self._cause = LeaseExpired("lease-expired", f"no renewal of token {self._token} was answered in time, by the own clock; another "
                                           "worker may have the key", members={"key": self.key, "token": self._token})
                self.lost.set()
                _log.warning("lease_expired key=%s token=%s", self.key, self._token)
            return self._cause is not None

    def _refused(self, error: PawlError) -> None:
        """The server has refused this grant for good."""
        with self._lock:
            if self._handing_back or self._ended:
                return  # The renewal came after a publish that gave the lease back.
            if not isinstance(error, Fenced):
                error = LeaseLost("lease-lost", "the server doesn't know this key any more", status=error.status, members=error.members)
            error.members.setdefault("token", self._token)
            if not isinstance(self._cause, Fenced):
                self._cause = copy.copy(error)
            self.lost.set()
        _log.warning("lease_lost key=%s token=%s error=%s", self.key, self._token, error)

    def release(self) -> None:
        """End the renewing and give the lease back; `with` calls this. That it can't be given back is no error: it runs out by itself. Doing
        so again changes nothing."""
        if not self._own or self._pid != os.getpid():
            return
        with self._lock:
            again, self._ended = self._ended, True
            renewing = self._renewing
        self._stop.set()
        if renewing is not None:
            self._client._abort(*renewing)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        if again or self._token is None or isinstance(self._cause, Fenced):
            return
        try:
            self._client._call("DELETE", self._client._key_url(self.key, "lease"), lease=self._id, changes=True, within=2.0, timeout=2.0)
        except PawlError as error:
            _log.warning("release_failed key=%s token=%s error=%s", self.key, self._token, error)

    def _fenced(self) -> PawlError:
        """The error of a block that was left with a lost lease. The fence is asked by a publish that can't succeed, so that the history
        records who came back late, and the error has both tokens: no version is ever the greatest token's."""
        cause = self._cause
        assert cause is not None
        try:
            self._publish_call({"final": True}, {"If-Match": f'"{_MAX_TOKEN}.1"'}, within=5.0)
        except Fenced as stale:
            return stale
        except PawlError:
            pass
        return cause

    # Writing

    def _changing(self, call: Callable[[], _T]) -> _T:
        self.token  # It must be acquired.
        try:
            return call()
        except Fenced as error:
            self._refused(error)
            self._told = True
            raise

    def _files_url(self, path: str = "") -> str:
        return self._client._key_url(self.key, f"generations/{self.token}/files/{_quote(path)}")

    def environment(self) -> Dict[str, str]:
        """Variables for a process that shall work under this lease, which finds it by from_env(): PAWL_KEY, PAWL_TOKEN, PAWL_LEASE_ID,
        PAWL_URL, PAWL_EFFECT_PREFIX, and PAWL_FILES_URL, the folder that programs like ffmpeg write into. They hold the secret lease_id in
        clear."""
        return {
            "PAWL_URL": self._client.url, "PAWL_KEY": self.key, "PAWL_TOKEN": str(self.token),
            "PAWL_LEASE_ID": _clear(self._id), "PAWL_FILES_URL": self._files_url(),
            "PAWL_EFFECT_PREFIX": self.effect_prefix,
        }

    def put(self, file: Union[str, os.PathLike[str], BinaryIO], name: Optional[str] = None, content_type: Optional[str] = None) -> Uploaded:
        """Upload a file into the generation: a path, or an open binary file. `name` is its path in the generation, by default the file's
        own name without folders. Nothing is visible to readers before publish().

        A file that can be read again is hashed first, so that the server refuses what isn't it, and takes nothing that it has; and it is sent again
        when an answer was lost. Anything else, a pipe for example, is sent once, and compared with the server's answer.
        """
        if isinstance(file, (str, os.PathLike)):
            if os.path.isdir(file):
                raise _invalid("file", f"{os.fspath(file)} is a folder; use put_tree")
            with io.open(file, "rb") as source:
                return self.put(source, os.path.basename(os.fspath(file)) if name is None else name, content_type)
        if not hasattr(file, "read"):
            raise _invalid("file", f"must be a path or an open binary file, not {type(file).__name__}; put_bytes takes bytes")
        if content_type is not None and not (isinstance(content_type, str) and re.fullmatch("[ -~]+", content_type)):
            raise _invalid("content_type", 'must be one line of ASCII, e.g. "image/png"')
        if name is None:
            own = getattr(file, "name", None)
            if not isinstance(own, str):
                raise _invalid("name", "must be given: the file has none")
            name = os.path.basename(own)
        path = _path(name)
        if isinstance(file, io.TextIOBase):
            raise TypeError('the file is open for text; open it with "rb"')
        body = file
        start = _place_in(body)
        if start is None:
            return self._changing(lambda: self._put_once(body, path, content_type))
        begin, (size, digest) = start, _measure(body)

        def attempt() -> Uploaded:
            try:
                body.seek(begin)
            except (OSError, ValueError) as error:
                raise _SourceFault(error) from error
            return self._send_file(_Body(body, size, expect=True), path, content_type, digest, fresh=False)

        return self._changing(lambda: self._client._repeated(f"upload of {path}", True, attempt))

    def put_bytes(self, data: Union[bytes, bytearray, memoryview], name: str, content_type: Optional[str] = None) -> Uploaded:
        """Upload bytes as a file; see put."""
        if isinstance(data, str):
            raise _invalid("data", "must be bytes, not text; encode it")
        return self.put(io.BytesIO(data), name, content_type)

    def put_tree(self, folder: Union[str, os.PathLike[str]], prefix: str = "", parallel: int = 4) -> List[Uploaded]:
        """Upload all files of a folder, `parallel` at once, under their paths in it, after `prefix`, if there is one, and a slash. What can't
        be published is told before a byte is sent, all of it: links that lead out of the folder, pipes, names that aren't legal, two names that
        are one in NFC. A folder that changed meanwhile is a Mismatch. Files that the generation has already aren't sent again."""
        found = _walk(os.fspath(folder), prefix)
        with concurrent.futures.ThreadPoolExecutor(max(parallel, 1)) as pool:
            sending = [pool.submit(self.put, entry.name, entry.path) for entry in found]
            try:
                sent = [future.result() for future in sending]
            except BaseException:
                for future in sending:
                    future.cancel()
                raise
        if _walk(os.fspath(folder), prefix) != found:
            raise Mismatch("digest-mismatch", f"{os.fspath(folder)} changed while it was uploaded; upload it again")
        return sent

    def _put_once(self, file: BinaryIO, path: str, content_type: Optional[str]) -> Uploaded:
        hashing = _Hashing(file)
        # A kept connection may have been closed by the server, and there is no second try.
        body = _Body(hashing, None, expect=True)
        sent = self._client._repeated(
            f"upload of {path}", True, lambda: self._send_file(body, path, content_type, "", fresh=True), within=-1.0)
        if sent.sha256 != hashing.sha256.hexdigest():
            raise Mismatch("digest-mismatch", f"what the server has of {path} is not what was sent; upload it again",
                           members={"promised": hashing.sha256.hexdigest(), "came": sent.sha256})
        return sent

    def _send_file(self, body: _Body, path: str, content_type: Optional[str], digest: str, fresh: bool) -> Uploaded:
        headers: Dict[str, str] = {"Accept": "application/json, application/problem+json", "Pawl-Lease": self._id}
        if content_type is not None:
            headers["Content-Type"] = content_type
        if digest:
            headers["Repr-Digest"] = f"sha-256=:{base64.b64encode(bytes.fromhex(digest)).decode('ascii')}:"
        return _read(Uploaded, _answered(self._client._send("PUT", self._files_url(path), headers, body, fresh=fresh))[1])

    def delete(self, name: str) -> None:
        """Drop a file from the generation, or keep one of an earlier generation from being carried over by reuse_from."""
        url = self._files_url(_path(name))
        self._changing(lambda: self._client._call("DELETE", url, lease=self._id, changes=True))

    def publish(self, final: bool = True, primary: Optional[str] = None, expect: Optional[Iterable[str]] = None, *, allow_empty: bool = False,
                reuse_from: Optional[int] = None, reuse_stale: bool = False, source_revision: Optional[int] = None,
                metadata: Optional[Mapping[str, str]] = None, manifest_digest: Optional[str] = None,
                if_match: Union[_AnyVersion, None, _Unsaid] = _Unsaid.UNSAID, create_only: bool = False, release: bool = False) -> Receipt:
        """Make what was uploaded current. Readers see all of it at once, or, when it is refused, nothing.

        `final` seals the generation; otherwise more can be uploaded and published again. `primary` is the file that readers get by default; of a
        single file it is that one. `expect` names files that must be there, e.g. "beauty.[1001-1100].exr", and not empty unless
        `allow_empty`; otherwise the error is Incomplete. Only a final publish looks for them: with final=False they may still be to come. `reuse_from` carries the files of that earlier token over, which must be current unless
        `reuse_stale`. `source_revision` orders the inputs: one below the current version's is refused. `if_match` and `create_only`
        refuse when something else, or anything, is current; so `if_match=pawl.current(key)` changes what was current, and nothing else: None means that
        nothing was, as `create_only` does. `manifest_digest` is what you believe to publish. `release` gives the
        lease back in the same step.

        Repeating it is safe: the receipt then says `replayed`. Fenced means that somebody newer has published.
        """
        body: Dict[str, Any] = {"final": final, "allow_empty": allow_empty, "reuse_stale": reuse_stale, "release": release,
                                "reuse_from": reuse_from, "source_revision": source_revision, "manifest_digest": manifest_digest}
        body = {name: value for name, value in body.items() if value is not None and value is not False or name == "final"}
        if primary is not None:
            body["primary"] = _path(primary)
        if expect is not None:
            body["expect"] = [expect] if isinstance(expect, str) else list(expect)
        if metadata:
            body["metadata"] = dict(metadata)
        headers = {}
        if not (if_match is None or isinstance(if_match, _Unsaid)):
            headers["If-Match"] = _tag("if_match", if_match)
            if create_only:
                raise _invalid("create_only", "can't be given with a version in if_match: nothing is current, or that is")
        elif create_only or if_match is None:
            headers["If-None-Match"] = "*"
        with self._lock:
            self._handing_back += release
        try:
            receipt = self._changing(lambda: self._publish_call(body, headers))
            with self._lock:
                self._published = True
                self._ended = self._ended or release
            if release:
                self._stop.set()
            return receipt
        finally:
            with self._lock:
                self._handing_back -= release

    def _publish_call(self, body: Dict[str, Any], headers: Mapping[str, str], within: Optional[float] = None) -> Receipt:
        url = self._client._key_url(self.key, f"generations/{self.token}/publish")
        named: Dict[str, Any] = {"body": body, "lease": self._id, "headers": headers}
        return _read(Receipt, self._client._call("POST", url, changes=True, within=within, **named)[1])

    # Third parties

    def effect(self, name: str) -> Effect:
        """Ask for the idempotency key of an effect at a third party that can't fence, e.g. "charge-52". It is the same for this key and
        name under every token, so that a stalled worker and its successor send the same one. A stale token is refused (Fenced). The
        key is `effect_prefix` and the name."""
        return self._effect(name, {})

    def effect_done(self, name: str, result: Optional[str] = None) -> Effect:
        """Note that an effect was done, and what the provider answered, at most 1,024 bytes."""
        return self._effect(name, {"state": "done", **({"result": result} if result is not None else {})})

    def _effect(self, name: str, body: Dict[str, str]) -> Effect:
        if not isinstance(name, str) or not re.fullmatch("[A-Za-z0-9._~:@+=,-]{1,128}", name) or name in (".", ".."):
            raise _invalid("name", "must be 1 to 128 of A-Z a-z 0-9 . _ ~ : @ + = , - since it goes into headers of third parties")
        url = self._client._key_url(self.key, f"generations/{self.token}/effects/{_quote(name)}")
        return _read(Effect, self._changing(lambda: self._client._call("POST", url, body=body, lease=self._id, changes=True))[1])


def _renewal_pause(ttl: float, failures: int) -> float:
    """The pause after so many failed renewals in a row. It is drawn at random: the holders of many leases, whose server was away for all of
    them, don't come back at one moment."""
    bound = min(ttl / 10, _FIRST_PAUSE * 2 ** min(failures - 1, 6))
    return random.uniform(bound / 2, bound)


def _event_like(old: threading.Event) -> threading.Event:
    made = threading.Event()
    if old.is_set():
        made.set()
    return made


def _lost_for_good(error: PawlError) -> bool:
    """Whether the refusal of a renewal is the server's word that the grant is over."""
    return isinstance(error, Fenced) and not error.foreign or isinstance(error, NotFound) and _names_key(error)


class _Hashing:
    """A source that is sent once, whose bytes are hashed as they are read. What has come is sent at once: the server ends an upload of which
    no byte comes for 30 seconds, and a pipe may take longer to fill a whole piece."""

    def __init__(self, source: BinaryIO) -> None:
        self._read: Callable[[int], bytes] = getattr(source, "read1", source.read)
        self.sha256 = hashlib.sha256()

    def read(self, n: int) -> bytes:
        piece = self._read(n)
        if not isinstance(piece, str):  # that is refused where it is sent
            self.sha256.update(piece)
        return piece


def _place_in(file: BinaryIO) -> Optional[int]:
    """Where an open file stands, None when it can't be read again from there."""
    try:
        start = file.tell()
        return file.seek(start) if file.seekable() else None
    except (AttributeError, OSError, ValueError):
        return None


def _measure(file: BinaryIO) -> Tuple[int, str]:
    """Length and SHA-256 of what is left of a file."""
    size, whole = 0, hashlib.sha256()
    while True:
        piece = file.read(_CHUNK)
        if not piece:
            return size, whole.hexdigest()
        size += len(piece)
        whole.update(piece)


@dataclasses.dataclass(frozen=True)
class _Found:
    """A file of a folder: its name on the disk, its path in the generation, and what tells whether it has changed."""

    name: str
    path: str
    mark: Tuple[int, int, int, int]  # device, inode, size, time of the last change


def _walk(folder: str, prefix: str) -> List[_Found]:
    """The files of a folder in order of their paths. Everything that can't be published is named, all of it in one error."""
    root = os.path.realpath(folder)
    found: List[_Found] = []
    faults: List[str] = []

    def fail(error: OSError) -> None:
        raise error

    for parent, folders, names in os.walk(root, onerror=fail):
        for name in names + [f for f in folders if os.path.islink(os.path.join(parent, f))]:
            full = os.path.join(parent, name)
            inside = os.path.relpath(full, root).replace(os.sep, "/")
            path = unicodedata.normalize("NFC", f"{prefix.rstrip('/')}/{inside}" if prefix else inside)
            real = os.path.realpath(full)
            if not real.startswith(os.path.join(root, "")) or not os.path.exists(real):
                faults.append(f"{inside!a} is a link that leads out of the folder, or to nothing; put a copy in its place")
                continue
            info = os.stat(real)
            if not stat.S_ISREG(info.st_mode):
                faults.append(f"{inside!a} is no file; put a file in its place, or take it away")
            elif _name_fault(path, True):
                faults.append(f"{inside!a} {_name_fault(path, True)}")
            else:
                found.append(_Found(full, path, (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)))
    found.sort(key=lambda f: f.path.encode("utf-8"))
    for one, other in zip(found, found[1:]):
        if one.path == other.path:
            faults.append(f"{one.name!a} and {other.name!a} are one name in NFC")
    if not found and not faults:
        faults.append("it holds no file")
    if faults:
        raise _invalid("folder", f"{folder} can't be published; nothing was uploaded:\n  " + "\n  ".join(faults))
    return found


# --- The client of the environment ------------------------------------------------------------------------------------------

_clients: Dict[Tuple[str, ...], Client] = {}
_clients_lock = threading.Lock()


def _environment_client() -> Client:
    """The client that PAWL_URL and the credential's settings describe, made once for each of their values."""
    settings = tuple(os.environ.get(name, "") for name in ("PAWL_URL", "PAWL_CREDENTIAL", "PAWL_CREDENTIAL_FILE"))
    with _clients_lock:
        if settings not in _clients:
            _clients[settings] = Client()
        return _clients[settings]


def _after_fork() -> None:
    """Give a forked child locks of its own. At the fork any of them may have been held by another thread, which the child hasn't."""
    global _clients_lock
    _clients_lock = threading.Lock()
    for made in list(_locking):
        made._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _close_clients() -> None:
    for client in _clients.values():
        client.close()


def lease(key: str, ttl: float = 30.0, *, wait: float = 0.0, holder: Optional[str] = None, labels: Optional[Mapping[str, str]] = None) -> Lease:
    """See Client.lease."""
    return _environment_client().lease(key, ttl, wait=wait, holder=holder, labels=labels)


def from_env() -> Lease:
    """See Client.from_env."""
    return _environment_client().from_env()


def current(key: str) -> Optional[Pointer]:
    """See Client.current."""
    return _environment_client().current(key)


def wait_for_change(key: str, version: Optional[_AnyVersion] = None, timeout: float = 60.0) -> Optional[Pointer]:
    """See Client.wait_for_change."""
    return _environment_client().wait_for_change(key, version, timeout)


def open(key: str, path: Optional[str] = None, *, version: Optional[_AnyVersion] = None) -> Download:
    """See Client.open. (In this module the built-in open is io.open.)"""
    return _environment_client().open(key, path, version=version)


def download(key: str, target: Union[str, os.PathLike[str]], path: Optional[str] = None) -> Pointer:
    """See Client.download."""
    return _environment_client().download(key, target, path)


def download_tree(key: str, folder: Union[str, os.PathLike[str]]) -> Pointer:
    """See Client.download_tree."""
    return _environment_client().download_tree(key, folder)


def files(key: str, *, version: Optional[_AnyVersion] = None) -> Iterator[FileInfo]:
    """See Client.files."""
    return _environment_client().files(key, version=version)


def history(key: str) -> Iterator[Generation]:
    """See Client.history."""
    return _environment_client().history(key)


def pointers(prefix: str = "") -> Iterator[Pointer]:
    """See Client.pointers."""
    return _environment_client().pointers(prefix)


def resolve(keys: Iterable[str]) -> List[Resolved]:
    """See Client.resolve."""
    return _environment_client().resolve(keys)
