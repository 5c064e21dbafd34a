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
from collections.abc import Iterator
from typing import Any, Protocol

from gateway.classify.memory import write
from gateway.classify.shelves import Shelves
from gateway.deadline import Clock
from gateway.types import DocumentCall, InferenceRequest, JsonDocument, TensorCall

LABELLED, TAINTED, TAINT_LOST = "labelled", "tainted", "taint_lost"
_PASSING = frozenset({"late", "busy", "failed"})
"""Troubles of the gateway's own. The next turn carries the same messages and is read in full."""
_OVER_CAP = "over_cap"  # the next turn is longer still
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
        tenant = request.tenant
        until_s = self._marks.doubtful_until_s(tenant)
        doubtful = until_s is not None and until_s > self._clock()
        if not doubtful and not self._marks.holds_any(tenant):
            return None
        if any(self._marks.get(tenant, digest) for digest in self._before(request)):
            return TAINTED
        return TAINT_LOST if doubtful and _goes_on(request) else None

    def mark(self, request: InferenceRequest, reason: str) -> None:
        """Remember a call that was restricted for this reason."""
        if isinstance(request.payload, DocumentCall) and reason in {*_PASSING, _OVER_CAP}:
            return
        digest = self._whole(request)
        if digest is not None:
            self._marks.put(request.tenant, digest)

    def _before(self, request: InferenceRequest) -> Iterator[bytes]:
        """Digests of all that this call may be the continuation of."""
        if isinstance(request.payload, TensorCall):
            digest = self._whole(request)
            if digest is not None:
                yield digest
            return
        before = messages(request.payload.document)[:-1]
        if before:
            hasher = self._hasher(request.tenant)
            for message in before[:_MOST_MESSAGES]:
                yield _add(hasher, message).copy().digest()

    def _whole(self, request: InferenceRequest) -> bytes | None:
        if isinstance(request.payload, TensorCall):
            sequence = request.payload.sequence
            if sequence is None:
                return None
            hasher = self._hasher(request.tenant)
            return write(hasher, "sequence", request.model, str(sequence)).digest()
        turns = messages(request.payload.document)
        hasher = self._hasher(request.tenant)
        for message in turns[:_MOST_MESSAGES]:
            _add(hasher, message)
        return hasher.digest() if turns else None

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
    found = document.get("messages", document.get("input"))
    if isinstance(found, str):
        found = [{"role": "user", "content": found}]
    return found if isinstance(found, list) else []


def _add(hasher: hashlib.blake2b, message: Any) -> hashlib.blake2b:
    """Only who says what: clients write the rest of a message anew, or leave it out."""
    if not isinstance(message, dict):
        return write(hasher, "", _said(message))
    who = message.get("role", message.get("type"))
    said = message.get("content", message.get("output"))
    return write(hasher, who if isinstance(who, str) else "", _said(said))


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
