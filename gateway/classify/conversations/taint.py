"""Conversations and sequences that were restricted once, and stay so (C10).

A conversation is known by what it begins with: when a call is restricted, a keyed digest of its
turns (role and content, nothing else) is kept, and a later call of the same tenant that begins
with the same turns and goes on is restricted, whatever the rest of it holds, whichever model it is
for and whichever field it stands in (`gateway.classify.text.turns`). The same call once more is no
next turn: it is read again, in full. A sequence of the Open Inference Protocol is known by its
model and id; a step is not sent again, so from the first restricted one on all the rest is.

A call that was restricted by findings alone and may leave with surrogates marks its conversation as
MASKABLE: a next turn that may leave with surrogates too, under the same policy, is read, and leaves
with surrogates or not at all. For everybody else the conversation stays.

What has no room any more fades (`gateway.classify.conversations.faded`): it is still known, and
only where more of it came than that was made for, a call may be restricted as `taint_lost` that
continues nothing. Such a call is not remembered itself.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterator
from typing import Protocol

from gateway.classify.conversations.faded import DOUBTFUL, MASKABLE, NOT_MARKED, STAYS, Faded
from gateway.classify.conversations.memory import write
from gateway.classify.conversations.shelves import Shelves
from gateway.classify.text.turns import Conversations, conversations, goes_on, written
from gateway.core.deadline import Clock
from gateway.core.types import DocumentCall, InferenceRequest, TensorCall

LABELLED, TAINTED, TAINT_LOST = "labelled", "tainted", "taint_lost"
_PASSING = frozenset({"late", "busy", "failed", "over_cap"})
"""A conversation is not kept that was restricted by troubles of the gateway's own, whose next
turn carries the same messages and is read in full, or by its length: the next turn is longer."""
_MOST_TURNS = 4096  # of one conversation that are looked at; the first ones say whose it is
_MOST_HASHERS = 1024  # that are kept ready
_DIGEST_BYTES = 8  # two that are equal by chance restrict too much, never too little


class TaintMarks(Protocol):
    """Where restricted conversations are remembered. Those of workers of one machine are one: what
    each of them puts there all find."""

    @property
    def key(self) -> bytes:
        """What digests are made with."""
        ...

    def holds_any(self, tenant: str) -> bool: ...
    def get(self, tenant: str, digest: bytes) -> int:
        """NOT_MARKED, DOUBTFUL, MASKABLE or STAYS."""
        ...

    def put(self, tenant: str, digest: bytes, standing: int) -> None:
        """MASKABLE or STAYS; the larger one stands."""
        ...

    def doubtful_until_s(self, tenant: str) -> float:
        """Until when whatever goes on may be the next turn of one that could not be marked."""
        ...


class OwnMarks:
    """Of this process alone."""

    def __init__(self, room: int, keep_s: float, clock: Clock, key: bytes) -> None:
        self.key = key
        self._clock = clock
        self._shelves: Shelves[int] = Shelves(room, keep_s, clock)
        self._faded = Faded(_unused_pages(Faded.size(room)), 0, room, keep_s, clock)
        self._faded_until_s: dict[str, float] = {}  # by tenant: until when it has any

    def holds_any(self, tenant: str) -> bool:
        return self._shelves.holds_any(tenant) or self._has_faded(tenant)

    def get(self, tenant: str, digest: bytes) -> int:
        standing = self._shelves.get(tenant, digest)
        if standing is None and self._has_faded(tenant):
            return self._faded.get(digest)
        return standing or NOT_MARKED

    def put(self, tenant: str, digest: bytes, standing: int) -> None:
        # guard: C18.taint-precedence
        standing = max(standing, self._shelves.get(tenant, digest) or NOT_MARKED)
        lost = self._shelves.put(tenant, digest, standing)
        if lost is not None:
            # guard: C18.fading -> until_s = 0.0
            until_s = self._faded.add(lost.key, lost.expires_s)
            known_s = self._faded_until_s.get(lost.tenant, 0.0)
            self._faded_until_s[lost.tenant] = max(known_s, until_s)

    def doubtful_until_s(self, tenant: str) -> float:
        return 0.0

    def _has_faded(self, tenant: str) -> bool:
        until_s = self._faded_until_s.get(tenant)
        return until_s is not None and until_s > self._clock()


class Taint:
    def __init__(
        self, room: int, keep_s: float, clock: Clock, key: bytes, shared: TaintMarks | None = None
    ) -> None:
        """`shared`: what workers of one machine have in common, under its own key."""
        # guard: O5.shared-taint -> self._marks: TaintMarks = OwnMarks(room, keep_s, clock, key)
        self._marks: TaintMarks = OwnMarks(room, keep_s, clock, key) if shared is None else shared
        self._clock = clock
        self._key = self._marks.key  # guard: O5.shared-key self._marks.key -> key
        self._hashers: dict[str, hashlib.blake2b] = {}  # of tenants

    def source(
        self, request: InferenceRequest, policy: str = "", classes: frozenset[str] = frozenset()
    ) -> str | None:
        """Why a call is restricted whatever it holds, or None: its caller says so, or what came
        before it does. `policy`: the version of what restricts its caller. `classes`: those that
        conversations may be of."""
        if request.labelled:
            return LABELLED
        tenant = request.tenant
        in_doubt = self._marks.doubtful_until_s(tenant) > self._clock()
        if not in_doubt and not self._marks.holds_any(tenant):
            return None
        talks = conversations(request.payload)
        standing = NOT_MARKED
        for digest, mark in self._marked(request, talks):
            if mark == MASKABLE and (
                self._may_be_masked(request, digest, policy)
                or self._marked_classes(request, digest, classes)
            ):
                continue
            standing = max(standing, mark)
            if standing == STAYS:
                break
        if standing >= MASKABLE:
            return TAINTED
        if standing == DOUBTFUL or not talks.whole:  # guard: C18.conversation-cap minus 2
            return TAINT_LOST
        goes_on_in_doubt = in_doubt and (_sequence(request) is not None or goes_on(talks))
        return TAINT_LOST if goes_on_in_doubt else None

    def leaves_masked_alone(
        self, request: InferenceRequest, classes: frozenset[str] = frozenset()
    ) -> bool:
        """Whether a call that may leave with surrogates must not leave without any, even if nothing
        is found in it: what came before it was restricted, and of none of these classes."""
        if not request.pseudonymise or not self._marks.holds_any(request.tenant):
            return False
        marked = self._marked(request, conversations(request.payload))
        return any(
            mark >= MASKABLE and not self._marked_classes(request, digest, classes)
            for digest, mark in marked
        )

    def classes(self, request: InferenceRequest, known: frozenset[str]) -> frozenset[str]:
        """Those that what came before a call was of."""
        if request.surrogates or not self._marks.holds_any(request.tenant):
            return frozenset()
        classes: frozenset[str] = frozenset()
        for digest, mark in self._marked(request, conversations(request.payload)):
            if mark == MASKABLE:
                classes |= self._marked_classes(request, digest, known)
        return classes

    def _marked_classes(
        self, request: InferenceRequest, digest: bytes, known: frozenset[str]
    ) -> frozenset[str]:
        marked = [n for n in known if self._marks.get(request.tenant, self._in(request, digest, n))]
        return frozenset(marked)

    def _in(self, request: InferenceRequest, digest: bytes, data_class: str) -> bytes:
        """That a beginning was of this class."""
        return write(self._hasher(request.tenant), "class", data_class, digest.hex()).digest()

    def mark(
        self,
        request: InferenceRequest,
        reason: str,
        policy: str = "",
        classes: frozenset[str] = frozenset(),
    ) -> None:
        """Remember a call that was restricted for this reason, or is of these classes, unless that
        says nothing about what follows."""
        in_sequence = _sequence(request) is not None
        # guard: C18.doubt-memory minus 1
        if reason == TAINT_LOST or (reason in _PASSING and not in_sequence):
            return
        if reason == TAINTED and self._renewed(request):  # guard: C18.single-mark
            return
        maskable = reason == "entities" and _may_leave_masked(request)
        for digest in self._whole(request):
            self._marks.put(request.tenant, digest, MASKABLE if maskable or classes else STAYS)
            for name in classes:
                self._marks.put(request.tenant, self._in(request, digest, name), MASKABLE)
            if maskable:
                self._marks.put(request.tenant, self._under(request, digest, policy), MASKABLE)

    def _renewed(self, request: InferenceRequest) -> bool:
        """Whether what a tainted call continues was marked once more in its place: a conversation
        has one mark, however long it is."""
        marked = self._marked(request, conversations(request.payload))
        stay = [digest for digest, mark in marked if mark == STAYS]
        for digest in stay:
            self._marks.put(request.tenant, digest, STAYS)
        return bool(stay)

    def _may_be_masked(self, request: InferenceRequest, digest: bytes, policy: str) -> bool:
        """Whether a call that goes on from a MASKABLE beginning can leave with surrogates for all
        that was found there."""
        if request.surrogates:
            return True
        if not _may_leave_masked(request):
            return False
        under = self._under(request, digest, policy)
        # guard: C18.surrogate-policy -> return True
        return self._marks.get(request.tenant, under) == MASKABLE

    def _marked(
        self, request: InferenceRequest, talks: Conversations
    ) -> Iterator[tuple[bytes, int]]:
        """What this call may be the continuation of, as far as it is marked: the first beginning
        of each conversation that stays, and all before it that do not."""
        tenant, expiry_for = request.tenant, self._marks.get
        sequence = self._sequence_digest(request)
        if sequence is not None:
            mark = expiry_for(tenant, sequence)
            if mark != NOT_MARKED:
                yield sequence, mark
        for turns in talks.all:
            if len(turns) < 2:
                continue
            hasher = self._hasher(tenant)
            for turn in turns[: min(len(turns) - 1, _MOST_TURNS)]:
                hasher.update(written(turn))
                digest = hasher.digest()
                mark = expiry_for(tenant, digest)
                if mark != NOT_MARKED:
                    yield digest, mark
                    if mark == STAYS:
                        break

    def _whole(self, request: InferenceRequest) -> list[bytes]:
        """What its next turn begins with, in each of its conversations."""
        digests: list[bytes] = []
        sequence = self._sequence_digest(request)
        if sequence is not None:
            digests.append(sequence)
        for turns in conversations(request.payload).all:
            hasher = self._hasher(request.tenant)
            hasher.update(b"".join(map(written, turns[:_MOST_TURNS])))
            digests.append(hasher.digest())
        return digests

    def _sequence_digest(self, request: InferenceRequest) -> bytes | None:
        sequence = _sequence(request)
        if sequence is None:
            return None
        hasher = self._hasher(request.tenant)
        return write(hasher, "sequence", request.model, str(sequence)).digest()

    def _under(self, request: InferenceRequest, digest: bytes, policy: str) -> bytes:
        """That a beginning was restricted by what this policy finds."""
        return write(self._hasher(request.tenant), "policy", policy, digest.hex()).digest()

    def _hasher(self, tenant: str) -> hashlib.blake2b:
        ready = self._hashers.get(tenant)
        if ready is None:
            if len(self._hashers) >= _MOST_HASHERS:
                self._hashers.clear()
            ready = write(hashlib.blake2b(key=self._key, digest_size=_DIGEST_BYTES), tenant)
            self._hashers[tenant] = ready
        return ready.copy()


def _sequence(request: InferenceRequest) -> int | str | None:
    payload = request.payload
    return payload.sequence if isinstance(payload, TensorCall) else None


def _may_leave_masked(request: InferenceRequest) -> bool:
    return (
        request.pseudonymise
        and isinstance(request.payload, DocumentCall)
        and request.payload.operation.pseudonymised
    )


def _unused_pages(size: int) -> mmap.mmap:
    """Zeros that take memory only where they are written over."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
