"""Verdicts of text that was read before, so that turn twenty reads turn twenty alone (C11).

A call's texts are cut into segments at fixed places: the same beginning of a conversation gives the
same segments. A segment is known by a keyed digest of itself *and of the text before it*, so what a
scan could see across its border (a value, or the word that gives a number its meaning) is part of
what was judged. Neighbours that are not known are scanned as one text.

Kept are digests, under a key that dies with the process, and verdicts: never text. Verdicts of
another tenant, policy or detector are others. Only scans that came to their end are remembered.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gateway.classify import ScanFailed
from gateway.classify.profile import Profile
from gateway.classify.shelves import Shelves
from gateway.deadline import Clock
from gateway.types import Finding

BETWEEN = "\n|\n"  # between the strings of one call: no value can match across it
CONTEXT = 320  # characters before a segment that belong to what is judged; the scanners' overlap
_LONG = 200  # a text of so many characters ends its segment
_FULL = 600  # and so many characters do in any case
_DIGEST_BYTES = 16

Restricts = Callable[[Sequence[Finding]], bool]
Scan = Callable[[Sequence[str]], Awaitable[Sequence[Sequence[Finding]]]]


@dataclass(frozen=True, slots=True)
class Scope:
    """Verdicts are only comparable within one of these."""

    tenant: str
    policy: str  # the version of what restricts this caller
    detector: str  # name and version of what looks


@dataclass(frozen=True, slots=True)
class Seen:
    """What one scan said of one segment."""

    restricted: bool = False
    entities: Mapping[str, int] = field(default_factory=dict)  # type -> count


@dataclass(frozen=True, slots=True)
class Segment:
    context: str = field(repr=False)  # the end of what stands before it
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Run:
    """Segments in a row that are not known, to be scanned as one text."""

    segments: tuple[Segment, ...]

    @property
    def text(self) -> str:
        context = self.segments[0].context
        parts = [context] if context else []
        return BETWEEN.join([*parts, *(s.text for s in self.segments)])

    def start(self) -> int:
        """The offset in `text` of the first segment, behind its context."""
        context = len(self.segments[0].context)
        return context + len(BETWEEN) if context else 0

    def owner(self, finding: Finding) -> int:
        """The segment in which a finding ends."""
        end = self.start()
        for at, segment in enumerate(self.segments):
            end += len(segment.text)
            if finding.end <= end:
                return at
            end += len(BETWEEN)
        return len(self.segments) - 1


@dataclass(frozen=True, slots=True)
class Recalled:
    """What is known of a call's texts, and what has to be scanned."""

    restricted: bool
    entities: Mapping[str, int]
    unseen: tuple[Run, ...]


_CLEAR = Seen()


class SegmentMemory:
    """`key` is random and of this process: nobody can try out what a digest stands for."""

    def __init__(self, room: int, keep_s: float, clock: Clock, key: bytes) -> None:
        self._shelves: Shelves[Seen] = Shelves(room, keep_s, clock)
        self._key = key

    def recall(self, scope: Scope, texts: Sequence[str]) -> Recalled:
        restricted = False
        entities: Counter[str] = Counter()
        runs: list[list[Segment]] = []
        last_known = True
        hasher = self._hasher(scope)
        for segment in segments(texts):
            seen = self._shelves.get(scope.tenant, _digest(hasher, segment))
            if seen is None:
                if last_known:
                    runs.append([])
                runs[-1].append(segment)
            else:
                restricted |= seen.restricted
                entities.update(seen.entities)
            last_known = seen is not None
        return Recalled(restricted, dict(entities), tuple(Run(tuple(run)) for run in runs))

    def learn(
        self, scope: Scope, run: Run, findings: Sequence[Finding], restricts: Restricts
    ) -> dict[str, int]:
        """Remember a scan of `run.text` that came to its end; says what it counted.

        A scan may stop at its first finding that restricts. Then the other segments of the run may
        not have been read, and only the ones with such a finding are remembered."""
        of_segment: list[list[Finding]] = [[] for _ in run.segments]
        for finding in findings:
            if finding.end > run.start() or restricts([finding]):  # else counted where it stands
                of_segment[run.owner(finding)].append(finding)
        stopped = restricts(findings)
        counted: Counter[str] = Counter()
        hasher = self._hasher(scope)
        for segment, own in zip(run.segments, of_segment, strict=True):
            seen = _seen(own, restricts)
            counted.update(seen.entities)
            if seen.restricted or not stopped:
                self._shelves.put(scope.tenant, _digest(hasher, segment), seen)
        return dict(counted)

    async def scan(
        self, scope: Scope, texts: Sequence[str], scan: Scan, profile: Profile
    ) -> tuple[bool, dict[str, int]]:
        """Whether the texts restrict, and what was counted in them. Only what is not known goes to
        `scan`, and whatever it raises comes out of here: nothing is remembered then."""
        known = self.recall(scope, texts)
        if known.restricted or not known.unseen:
            return known.restricted, dict(known.entities)
        answers = await scan([run.text for run in known.unseen])
        if len(answers) != len(known.unseen):
            raise ScanFailed("the scanner's answer does not fit the question")
        restricted, entities = False, Counter(known.entities)
        for run, findings in zip(known.unseen, answers, strict=True):
            counting = [f for f in findings if f.score >= profile.threshold]
            restricted |= profile.restricts(counting)
            entities.update(self.learn(scope, run, counting, profile.restricts))
        return restricted, dict(entities)

    def _hasher(self, scope: Scope) -> hashlib.blake2b:
        hasher = hashlib.blake2b(key=self._key, digest_size=_DIGEST_BYTES)
        return write(hasher, scope.tenant, scope.policy, scope.detector)


def write(hasher: hashlib.blake2b, *parts: str) -> hashlib.blake2b:
    """Add strings, each with its length, so that no two lists of them are written alike."""
    for part in parts:
        written = part.encode("utf-8", "surrogatepass")
        hasher.update(len(written).to_bytes(8, "big"))
        hasher.update(written)
    return hasher


def _digest(hasher: hashlib.blake2b, segment: Segment) -> bytes:
    return write(hasher.copy(), segment.context, segment.text).digest()


def segments(texts: Sequence[str]) -> list[Segment]:
    """Cut between texts, never within one; where, only what stands before the cut decides."""
    found: list[Segment] = []
    own: list[str] = []
    context, size = "", 0
    for text in texts:
        own.append(text)
        size += len(text)
        if len(text) >= _LONG or size >= _FULL:
            found.append(Segment(context, BETWEEN.join(own)))
            context = _context(context, found[-1].text)
            own, size = [], 0
    if own:
        found.append(Segment(context, BETWEEN.join(own)))
    return found


def _context(before: str, text: str) -> str:
    """The last characters of what stands before the next segment, from the start of a word on: a
    part of a long token looks like other things than the whole."""
    if len(text) < CONTEXT and before:
        text = f"{before}{BETWEEN}{text}"
    if len(text) <= CONTEXT:
        return text
    tail = text[-CONTEXT:]
    if text[-CONTEXT - 1].isspace():
        return tail
    start = next((i for i, c in enumerate(tail) if c.isspace()), len(tail))
    return tail[start:].lstrip() if start < len(tail) or tail.isascii() else tail


def _seen(findings: Sequence[Finding], restricts: Restricts) -> Seen:
    if not findings:
        return _CLEAR
    return Seen(restricts(findings), dict(Counter(f.type for f in findings)))
