"""Conversations and sequences that were restricted once, and stay so (C10).

A conversation is known by what it begins with: when a call is restricted, a keyed digest of its
messages (role and content, nothing else) is kept, and a later call of the same tenant that begins
with the same messages and goes on is restricted, whatever the rest of it holds and whichever model
it is for. The same call once more is no next turn: it is read again, in full. A sequence of the
Open Inference Protocol is known by its model and id; a step is not sent again, so from the first
restricted one on all the rest is.

What had to be forgotten for want of room leaves a doubt behind: until it would have been over,
every call of that tenant that goes on with something is restricted as `taint_lost`.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, Protocol

from gateway.classify.memory import write
from gateway.classify.shelves import Shelves
from gateway.deadline import Clock
from gateway.types import DocumentCall, InferenceRequest, JsonDocument, TensorCall

LABELLED, TAINTED, TAINT_LOST = "labelled", "tainted", "taint_lost"
_PASSING = frozenset({"late", "busy", "failed", "over_cap"})
"""A conversation is not kept that was restricted by troubles of the gateway's own, whose next
turn carries the same messages and is read in full, or by its length: the next turn is longer."""
_MOST_MESSAGES = 4096  # of one conversation that are looked at; the first ones say whose it is
_MOST_HASHERS = 1024  # that are kept ready
_DIGEST_BYTES = 8  # two that are equal by chance restrict too much, never too little
_OPENING_ROLES = frozenset({"system", "developer"})


class Marks(Protocol):
    """Where restricted conversations are remembered. Those of workers of one machine are one: what
    each of them puts there all find."""

    @property
    def key(self) -> bytes:
        """What digests are made with."""
        ...

    def holds_any(self, tenant: str) -> bool: ...
    def get(self, tenant: str, digest: bytes) -> bool | None: ...
    def put(self, tenant: str, digest: bytes) -> None: ...
    def doubtful_until_s(self, tenant: str) -> float | None:
        """Until when whatever goes on may be the next turn of one that had to be forgotten, if
        anything had to be."""
        ...


class OwnMarks:
    """Of this process alone."""

    def __init__(self, room: int, keep_s: float, clock: Clock, key: bytes) -> None:
        self.key = key
        self._shelves: Shelves[bool] = Shelves(room, keep_s, clock)
        self._doubtful_until_s: dict[str, float] = {}
        self.holds_any, self.get = self._shelves.holds_any, self._shelves.get
        self.doubtful_until_s = self._doubtful_until_s.get

    def put(self, tenant: str, digest: bytes) -> None:
        lost = self._shelves.put(tenant, digest, True)
        if lost is not None:
            known_s = self._doubtful_until_s.get(lost.tenant, 0.0)
            self._doubtful_until_s[lost.tenant] = max(known_s, lost.expires_s)


class Taint:
    def __init__(
        self, room: int, keep_s: float, clock: Clock, key: bytes, shared: Marks | None = None
    ) -> None:
        """`shared`: what workers of one machine have in common, under its own key."""
        self._marks: Marks = OwnMarks(room, keep_s, clock, key) if shared is None else shared
        self._clock = clock
        self._key = self._marks.key
        self._hashers: dict[str, hashlib.blake2b] = {}  # of tenants

    def of(self, request: InferenceRequest) -> str | None:
        """Why a call is restricted whatever it holds, or None: its caller says so, or what came
        before it does."""
        if request.labelled:
            return LABELLED
        tenant, marks = request.tenant, self._marks
        until_s = marks.doubtful_until_s(tenant)
        doubtful = until_s is not None and until_s > self._clock()
        if not doubtful and not marks.holds_any(tenant):
            return None
        if self._continues(request):
            return TAINTED
        return TAINT_LOST if doubtful and _goes_on(request) else None

    def mark(self, request: InferenceRequest, reason: str) -> None:
        """Remember a call that was restricted for this reason."""
        if reason in _PASSING and isinstance(request.payload, DocumentCall):
            return
        digest = self._whole(request)
        if digest is not None:
            self._marks.put(request.tenant, digest)

    def _continues(self, request: InferenceRequest) -> bool:
        """Whether anything that this call may be the continuation of is marked."""
        payload, tenant = request.payload, request.tenant
        if isinstance(payload, TensorCall):
            digest = self._whole(request)
            return digest is not None and bool(self._marks.get(tenant, digest))
        turns = messages(payload.document)
        if len(turns) < 2:
            return False
        hasher, marked = self._hasher(tenant), self._marks.get
        for message in turns[: min(len(turns) - 1, _MOST_MESSAGES)]:
            hasher.update(_written(message))
            if marked(tenant, hasher.digest()):
                return True
        return False

    def _whole(self, request: InferenceRequest) -> bytes | None:
        payload = request.payload
        if isinstance(payload, TensorCall):
            sequence = payload.sequence
            if sequence is None:
                return None
            hasher = self._hasher(request.tenant)
            return write(hasher, "sequence", request.model, str(sequence)).digest()
        turns = messages(payload.document)
        if not turns:
            return None
        hasher = self._hasher(request.tenant)
        hasher.update(b"".join(map(_written, turns[:_MOST_MESSAGES])))
        return hasher.digest()

    def _hasher(self, tenant: str) -> hashlib.blake2b:
        ready = self._hashers.get(tenant)
        if ready is None:
            if len(self._hashers) >= _MOST_HASHERS:
                self._hashers.clear()
            ready = write(hashlib.blake2b(key=self._key, digest_size=_DIGEST_BYTES), tenant)
            self._hashers[tenant] = ready
        return ready.copy()


def messages(document: JsonDocument) -> list[Any]:
    """The turns of a conversation: chat messages, or what the Responses API takes as input."""
    found = document.get("messages")
    if found is None and "messages" not in document:
        found = document.get("input")
    if isinstance(found, list):
        return found
    return [{"role": "user", "content": found}] if isinstance(found, str) else []


def _written(message: Any) -> bytes:
    """Only who says what: clients write the rest of a message anew, or leave it out. Each with its
    length, so that no two are written alike."""
    if isinstance(message, dict):
        who = message["role"] if "role" in message else message.get("type")
        said = message["content"] if "content" in message else message.get("output")
    else:
        who, said = "", message
    speaker = _NOBODY
    if isinstance(who, str):
        speaker = _SPEAKERS.get(who) or _with_length(who)
    text = (said if isinstance(said, str) else _said(said)).encode("utf-8", "surrogatepass")
    return speaker + len(text).to_bytes(8, "big") + text


def _with_length(text: str) -> bytes:
    written = text.encode("utf-8", "surrogatepass")
    return len(written).to_bytes(8, "big") + written


_NOBODY: Final = _with_length("")
_SPEAKERS: Final = {who: _with_length(who) for who in ("assistant", "system", "tool", "user")}
"""Most of them."""


def _said(content: Any) -> str:
    """The text of a content, the same whether it comes whole or in parts."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        return "".join(_part(part) for part in content)
    return json.dumps(content, sort_keys=True)


def _part(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else json.dumps(part, sort_keys=True)


def _goes_on(request: InferenceRequest) -> bool:
    """Whether a call may have had one before it."""
    if isinstance(request.payload, TensorCall):
        return request.payload.sequence is not None
    turns = messages(request.payload.document)
    said = [t for t in turns if not (isinstance(t, dict) and t.get("role") in _OPENING_ROLES)]
    return len(said) > 1
