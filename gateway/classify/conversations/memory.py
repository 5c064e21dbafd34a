"""Verdicts of text that was read before, so that turn twenty reads turn twenty alone (C11).

A call's texts are cut into segments at fixed places: the same beginning of a conversation gives the
same segments. A segment is known by a keyed digest of itself *and of the text before it*, so what a
scan could see across its border (a value, or the word that gives a number its meaning) is part of
what was judged. Neighbours that are not known are scanned as one text.

The gate, which costs less than a digest of each segment, is asked about all that follows the
longest beginning that it cleared before: one digest for each turn or so of a long conversation.

Kept are digests, under a key that dies with the process, and verdicts: never text. Verdicts of
another tenant, policy or detector are others. Only scans that came to their end are remembered.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field

from gateway.classify import ScanFailed
from gateway.classify.conversations.shelves import Shelves
from gateway.classify.profile import Profile
from gateway.core.deadline import Clock
from gateway.core.structs import value
from gateway.core.types import Finding

BETWEEN = "\n|\n"  # between the strings of one call: no value can match across it
CONTEXT = 320  # characters before a segment that belong to what is judged; the scanners' overlap
_LONG = 200  # a text of so many characters ends its segment
_FULL = 600  # and so many characters do in any case
_DIGEST_BYTES = 16
_BLOCK = 2048  # characters, at least, from one place where a beginning may end to the next
_MOST_SCOPES = 1024  # hashers that are kept ready

Restricts = Callable[[Sequence[Finding]], bool]
Scan = Callable[[Sequence[str]], Awaitable[Sequence[Sequence[Finding]]]]


@value
class Scope:
    """Verdicts are only comparable within one of these."""

    tenant: str
    policy: str  # the version of what restricts this caller
    detector: str  # name and version of what looks


@value
class SegmentVerdict:
    """What one scan said of one segment."""

    restricted: bool = False
    entities: Mapping[str, int] = field(default_factory=dict)  # type -> count


@value
class TextSegment:
    context: str = field(repr=False)  # the end of what stands before it
    text: str = field(repr=False)


@value
class SegmentRun:
    """Segments in a row that are not known, to be scanned as one text."""

    segments: tuple[TextSegment, ...]

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


@value
class Recalled:
    """What is known of a call's texts, and what has to be scanned."""

    restricted: bool
    entities: Mapping[str, int]
    unseen: tuple[SegmentRun, ...]

    @property
    def settled(self) -> bool:
        """Whether there is nothing left to scan for a verdict."""
        return self.restricted or not self.unseen


@value
class Beginning:
    """What is known of how a call's texts begin, and what has to be asked about the rest."""

    rest: str = field(repr=False)  # with the end of what stands before it
    mark: bytes | None = None  # of the longest beginning that can be remembered, if it is not yet


_CLEAR = SegmentVerdict()


class SegmentMemory:
    """`key` is random and of this process: nobody can try out what a digest stands for."""

    def __init__(self, room: int, keep_s: float, clock: Clock, key: bytes) -> None:
        self._shelves: Shelves[SegmentVerdict] = Shelves(room, keep_s, clock)
        self._key = key
        self._hashers: dict[Scope, hashlib.blake2b] = {}
        self._remembers = room > 0

    def beginning(self, scope: Scope, texts: Sequence[str]) -> Beginning:
        """What is left to look at behind the longest beginning that was remembered.

        A beginning is known by a keyed digest of all of it, at places that only what stands before
        them decides: a conversation that goes on has those of its last turn."""
        if not self._remembers:
            return Beginning(BETWEEN.join(texts))
        hasher = self._hasher(scope)
        marks: list[tuple[int, bytes]] = []
        start, size = 0, 0
        for end, text in enumerate(texts, 1):
            size += len(text)
            if size >= _BLOCK:
                block = texts[start:end]
                hasher.update(repr(list(map(len, block))).encode())
                # guard: C15.digest-text
                hasher.update(BETWEEN.join(block).encode("utf-8", "surrogatepass"))
                marks.append((end, hasher.digest()))
                start, size = end, 0
        for end, mark in reversed(marks):
            if self._shelves.get(scope.tenant, mark) is not None:
                rest = BETWEEN.join(texts[end:])
                # guard: C15.prefix-overlap -> return Beginning(rest, None if mark == marks[-1][1]
                #   else marks[-1][1])
                return Beginning(
                    f"{_joined_tail(texts[:end])}{BETWEEN}{rest}" if rest else "",
                    None if mark == marks[-1][1] else marks[-1][1],
                )
        return Beginning(BETWEEN.join(texts), marks[-1][1] if marks else None)

    def keep(self, scope: Scope, beginning: Beginning) -> None:
        """Remember it: all of it is clear."""
        if beginning.mark is not None:
            self._shelves.put(scope.tenant, beginning.mark, _CLEAR)

    def recall(self, scope: Scope, texts: Sequence[str]) -> Recalled:
        restricted = False
        entities: Counter[str] = Counter()
        runs: list[list[TextSegment]] = []
        last_known = True
        hasher = self._hasher(scope)
        for segment in segments(texts):
            verdict = self._shelves.get(scope.tenant, _digest(hasher, segment))
            if verdict is None:
                if last_known:
                    runs.append([])
                runs[-1].append(segment)
            else:
                restricted |= verdict.restricted
                entities.update(verdict.entities)
            last_known = verdict is not None
        return Recalled(restricted, dict(entities), tuple(SegmentRun(tuple(run)) for run in runs))

    def learn(
        self,
        scope: Scope,
        run: SegmentRun,
        findings: Sequence[Finding],
        restricts: Restricts,
        stopped: bool = False,
    ) -> dict[str, int]:
        """Remember a scan of `run.text` that came to its end; says what it counted.

        A scan may stop at its first finding that restricts, of this run or of another one
        (`stopped`). Then the other segments may not have been read, and only the ones with such a
        finding are remembered."""
        by_segment: list[list[Finding]] = [[] for _ in run.segments]
        for finding in findings:
            if finding.end > run.start() or restricts([finding]):  # else counted where it stands
                by_segment[run.owner(finding)].append(finding)
        stopped = stopped or restricts(findings)
        counted: Counter[str] = Counter()
        hasher = self._hasher(scope)
        for segment, own in zip(run.segments, by_segment, strict=True):
            verdict = _segment_verdict(own, restricts)
            counted.update(verdict.entities)
            if verdict.restricted or not stopped:
                self._shelves.put(scope.tenant, _digest(hasher, segment), verdict)
        return dict(counted)

    async def scan(
        self, scope: Scope, texts: Sequence[str], scan: Scan, profile: Profile
    ) -> tuple[bool, dict[str, int]]:
        """Whether the texts restrict, and what was counted in them. Only what is not known goes to
        `scan`, and whatever it raises comes out of here: nothing is remembered then."""
        known = self.recall(scope, texts)
        if known.settled:
            return known.restricted, dict(known.entities)
        return await self.scan_unseen(scope, known, scan, profile)

    async def scan_unseen(
        self, scope: Scope, known: Recalled, scan: Scan, profile: Profile
    ) -> tuple[bool, dict[str, int]]:
        """As `scan`, of texts that were recalled and are not settled."""
        answers = await scan([run.text for run in known.unseen])
        if len(answers) != len(known.unseen):
            raise ScanFailed("the scanner's answer does not fit the question")
        counting = [[f for f in own if f.score >= profile.threshold] for own in answers]
        restricted = any(map(profile.restricts, counting))
        entities = Counter(known.entities)
        for run, findings in zip(known.unseen, counting, strict=True):
            # guard: C19.unread-segments restricted -> False
            entities.update(self.learn(scope, run, findings, profile.restricts, restricted))
        return restricted, dict(entities)

    def _hasher(self, scope: Scope) -> hashlib.blake2b:
        ready = self._hashers.get(scope)
        if ready is None:
            if len(self._hashers) >= _MOST_SCOPES:
                self._hashers.clear()
            ready = hashlib.blake2b(key=self._key, digest_size=_DIGEST_BYTES)
            # guard: C15.digest-policy without scope.policy
            self._hashers[scope] = write(ready, scope.tenant, scope.policy, scope.detector)
        return ready.copy()


def write(hasher: hashlib.blake2b, *parts: str) -> hashlib.blake2b:
    """Add strings, each with its length, so that no two lists of them are written alike."""
    for part in parts:
        written = part.encode("utf-8", "surrogatepass")
        hasher.update(len(written).to_bytes(8, "big"))
        hasher.update(written)
    return hasher


def _digest(hasher: hashlib.blake2b, segment: TextSegment) -> bytes:
    return write(hasher.copy(), segment.context, segment.text).digest()


def segments(texts: Sequence[str]) -> list[TextSegment]:
    """Cut between texts, never within one; where, only what stands before the cut decides."""
    segments_: list[TextSegment] = []
    own: list[str] = []
    context, size = "", 0
    for text in texts:
        own.append(text)
        size += len(text)
        if len(text) >= _LONG or size >= _FULL:
            segments_.append(TextSegment(context, BETWEEN.join(own)))
            context = _context(context, segments_[-1].text)
            own, size = [], 0
    if own:
        segments_.append(TextSegment(context, BETWEEN.join(own)))
    return segments_


def _joined_tail(texts: Sequence[str]) -> str:
    """The context of what stands behind these."""
    size, first = 0, len(texts)
    while first and size <= CONTEXT:
        first -= 1
        size += len(texts[first]) + len(BETWEEN)
    return _context("", BETWEEN.join(texts[first:]))


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


def _segment_verdict(findings: Sequence[Finding], restricts: Restricts) -> SegmentVerdict:
    if not findings:
        return _CLEAR
    return SegmentVerdict(restricts(findings), dict(Counter(f.type for f in findings)))
