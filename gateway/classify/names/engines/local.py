"""Names in this process, on the CPU: one thread that reads what waits, in batches.

ONNX Runtime gives the interpreter lock back while it computes, so the event loop goes on. What
waits together is read together: calls that come at the same time share batches. A long text is
read batch by batch, with short ones that wait in between, and no further once its caller's budget
is over. Whatever goes wrong is a `NoScan`, and nobody waits past the budget (C1, C9).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.classify import NoScan, ScanFailed, ScanLate, ScannersBusy, ScannerUnfit
from gateway.classify.names import FULL_NAME, Enough, rules
from gateway.classify.names.canaries import CANARIES, KINDS, NOBODY
from gateway.classify.names.gate.windows import GatedText, NamesGate
from gateway.classify.names.model.card import WEIGHTS, card
from gateway.classify.names.model.labels import INSIDE
from gateway.classify.names.model.languages import Languages
from gateway.classify.names.model.tagger import Mention, Probabilities, Tagger
from gateway.classify.names.model.words import TextWords, cut
from gateway.core import ambient
from gateway.core.types import Finding

log = logging.getLogger(__name__)

MAX_BUDGET_S = 30.0
END_S = 2.0  # for the thread to end; one that hangs in the model ends with the process
_CLOSED = "names are closed, or their thread has died"
_TOGETHER = 32  # jobs read in one go
_LONG = 6_000  # characters: a longer text is read alone
_AT_ONCE = 16_384  # characters that the gate looks at on the loop: a millisecond


class UnmeasuredLanguage(NoScan):
    """The text is in a language that the model was never measured on."""

    reason = "unmeasured_language"


Answer = list[list[Finding]]


@dataclass(slots=True, eq=False)
class _Job:
    texts: Sequence[Sized] = field(repr=False)
    until_s: float
    answer: asyncio.Future[Answer]
    size: int  # characters

    @property
    def late(self) -> bool:
        return ambient.monotonic_s() > self.until_s or self.answer.cancelled()

    def resolve(self, answer: Answer | NoScan) -> None:
        """From any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended, nobody waits
            self.answer.get_loop().call_soon_threadsafe(self._resolve, answer)

    def _resolve(self, answer: Answer | NoScan) -> None:
        if self.answer.done():
            return
        if isinstance(answer, NoScan):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)


class LocalNames:
    """The `Names` of a gateway without further settings."""

    def __init__(
        self,
        languages: Sequence[str],
        *,
        other_languages: bool = False,
        max_waiting: int = 256,
        weights: Path = WEIGHTS,
    ) -> None:
        """`other_languages`: read texts in languages that the model was not measured on too."""
        self._languages = tuple(languages)
        self._other_languages = other_languages
        self._max_waiting = max_waiting
        self._weights = weights
        self._reader: NamesReader | None = None
        self._thread: ReaderThread | None = None

    async def start(self) -> None:
        if self._thread is not None:
            return
        try:
            reader = await asyncio.to_thread(NamesReader.load, self._weights, self._other_languages)
            missed = await asyncio.to_thread(reader.missed, self._languages)
        except ScannerUnfit:
            raise
        except Exception as exc:  # noqa: BLE001 - each file has a reader with errors of its own
            raise ScannerUnfit(f"the names model cannot be loaded: {type(exc).__name__}") from None
        if missed:
            raise ScannerUnfit(f"the names model gets its samples wrong: {', '.join(missed)}")
        self._reader = reader
        self._thread = ReaderThread(reader.read_windows, self._max_waiting)

    async def find(
        self,
        texts: Sequence[str],
        budget_s: float,
        lone: Sequence[bool] | None = None,
        enough: Enough | None = None,
    ) -> Answer:
        if self._thread is None or self._reader is None:
            raise ScanFailed("names are not started, or closed")
        started_s = ambient.monotonic_s()
        gated = await self._gated(self._reader, texts, budget_s, lone, enough)
        if any(one.foreign for one in gated):
            raise UnmeasuredLanguage
        if not any(one.windows for one in gated):
            return [[] for _ in texts]
        return await self._thread.find(gated, budget_s - (ambient.monotonic_s() - started_s))

    async def _gated(
        self,
        reader: NamesReader,
        texts: Sequence[str],
        budget_s: float,
        lone: Sequence[bool] | None,
        enough: Enough | None,
    ) -> list[GatedText]:
        if sum(map(len, texts)) <= _AT_ONCE:
            return reader.filter(texts, lone, enough)
        try:
            async with asyncio.timeout(budget_s):
                return await asyncio.to_thread(reader.filter, texts, lone, enough)
        except TimeoutError:
            raise ScanLate("names were not found in time") from None

    async def aclose(self) -> None:
        thread, self._thread = self._thread, None
        self._reader = None
        if thread is not None:
            await asyncio.to_thread(thread.end)


Read = Callable[[Sequence[Any], Callable[[], None]], "list[list[Finding] | UnmeasuredLanguage]"]
"""Texts, or what the gate says of them: whatever has a length in characters to read."""


class ReaderThread:
    """Reads what waits until it is told to end. Whatever ends it, nobody waits for it in vain."""

    def __init__(self, read: Read, max_waiting: int) -> None:
        self._read_texts = read
        self._max_waiting = max_waiting
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._short: deque[_Job] = deque()
        self._long: deque[_Job] = deque()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="names", daemon=True)
        self._thread.start()

    async def find(self, texts: Sequence[Sized], budget_s: float) -> Answer:
        if not budget_s > 0:  # NaN neither
            raise ScanLate("no time is left to look for names")
        budget_s = min(budget_s, MAX_BUDGET_S)
        loop = asyncio.get_running_loop()
        until_s = ambient.monotonic_s() + budget_s
        job = _Job(texts, until_s, loop.create_future(), sum(map(len, texts)))
        self._put(job)
        try:
            async with asyncio.timeout(budget_s):
                return await job.answer
        except TimeoutError:
            raise ScanLate("names were not found in time") from None
        finally:
            # guard: A10.failed-scan
            del job  # its answer keeps what it raises, whose traceback has this frame

    def end(self) -> None:
        """Whoever waits is told that there is no scan."""
        self._ended.set()
        self._jobs.put(None)
        self._thread.join(END_S)
        if self._thread.is_alive():
            log.warning("the names model hangs; its thread ends with the process")
        self._refuse_waiting()

    def _put(self, job: _Job) -> None:
        # Also those whose callers have left: they hold their texts until it is their turn.
        if self._jobs.qsize() + len(self._short) + len(self._long) >= self._max_waiting:
            raise ScannersBusy("too many calls wait for their names")
        self._jobs.put(job)
        if self._ended.is_set():  # nobody may read it any more
            self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                if (job := self._jobs.get_nowait()) is not None:
                    job.resolve(ScanFailed(_CLOSED))
        self._jobs.put(None)  # whom this one was to wake, another wakes

    # in the thread

    def _work(self) -> None:
        try:
            while not self._ended.is_set():
                self._take(wait=not (self._short or self._long))
                self._read_short()
                if self._long:
                    job = self._long.popleft()
                    self._read([job], between=self._read_waiting)
        finally:
            if not self._ended.is_set():
                log.error("the thread that reads names has died; calls that need it are restricted")
            self._ended.set()
            for job in (*self._short, *self._long):
                job.resolve(ScanFailed(_CLOSED))
            self._refuse_waiting()

    def _take(self, *, wait: bool) -> None:
        with contextlib.suppress(queue.Empty):
            job = self._jobs.get(block=wait)
            while job is not None:
                (self._long if job.size > _LONG else self._short).append(job)
                job = self._jobs.get_nowait()

    def _read_waiting(self) -> None:
        self._take(wait=False)
        self._read_short()

    def _read_short(self) -> None:
        """One go, so that a long text gets its turn."""
        jobs: list[_Job] = []
        room = _LONG
        while self._short and len(jobs) < _TOGETHER and room >= 0:
            jobs.append(self._short.popleft())
            room -= jobs[-1].size
        self._read(jobs)

    def _read(self, jobs: Sequence[_Job], between: Callable[[], None] = lambda: None) -> None:
        jobs = [job for job in jobs if not job.late]
        if not jobs:
            return

        def go_on() -> None:
            if self._ended.is_set():
                raise ScanFailed
            if all(job.late for job in jobs):
                raise ScanLate
            between()

        try:
            readings = iter(self._read_texts([text for job in jobs for text in job.texts], go_on))
            answers = [[next(readings) for _ in job.texts] for job in jobs]
        except BaseException as exc:  # noqa: BLE001 - restricts; its text and frames may be content
            failure = type(exc) if isinstance(exc, NoScan) else ScanFailed
            for job in jobs:
                job.resolve(failure("names cannot be looked for"))
            return
        for job, mine in zip(jobs, answers, strict=True):
            unread = any(isinstance(m, NoScan) for m in mine)
            job.resolve(
                UnmeasuredLanguage()
                if unread
                else [m for m in mine if not isinstance(m, UnmeasuredLanguage)]
            )


_Find = Callable[[TextWords, Probabilities, float, float], list[Mention]]


@dataclass(slots=True, eq=False)
class _Reading:
    """A text, the words of its windows, and what the first model says of them."""

    text: GatedText
    parts: list[TextWords] = field(repr=False)
    probabilities: list[Probabilities] = field(default_factory=list, repr=False)
    findings: list[Finding] = field(default_factory=list, repr=False)

    def in_order(self) -> Iterable[tuple[TextWords, Probabilities]]:
        return zip(self.parts, self.probabilities, strict=True)

    def surest_first(self) -> Iterable[tuple[TextWords, Probabilities]]:
        """By how sure the first model is of a name that goes on."""
        return sorted(self.in_order(), key=lambda p: -float(p[1][:, INSIDE["PERSON"]].max()))


class NamesReader:
    """Texts in, findings out, in this thread: gate, tagger and rules together."""

    def __init__(
        self, tagger: Tagger, gate: NamesGate | None, thresholds: dict[str, float]
    ) -> None:
        """`gate`: None where all of every text is read, whatever its language."""
        self._tagger = tagger
        self._gate = gate
        self._thresholds = thresholds

    @classmethod
    def load(cls, weights: Path = WEIGHTS, other_languages: bool = False) -> NamesReader:
        model_card = card(weights)
        tagger, languages = Tagger.load(weights), None
        if not other_languages:
            measured = frozenset(model_card["languages"])
            languages = Languages.load(weights / "languages.npz", measured, tagger.features.lexicon)
        gate = NamesGate(tagger.features.lexicon, languages)
        return cls(tagger, gate, model_card["thresholds"])

    def filter(
        self,
        texts: Sequence[str],
        lone: Sequence[bool] | None = None,
        enough: Enough | None = None,
    ) -> list[GatedText]:
        """What the model must read of them; `lone` and `enough` as in `Names.find`."""
        if (gate := self._gate) is None:
            return [GatedText(text, ((0, len(text)),), enough=enough) for text in texts]
        return [
            gate.filter(text, counts, enough)
            for text, counts in zip(texts, lone or itertools.repeat(True), strict=False)
        ]

    def read(
        self,
        texts: Sequence[str],
        go_on: Callable[[], None] = lambda: None,
        lone: Sequence[bool] | None = None,
        enough: Enough | None = None,
    ) -> list[list[Finding] | UnmeasuredLanguage]:
        return self.read_windows(self.filter(texts, lone, enough), go_on)

    def read_windows(
        self, gated: Sequence[GatedText], go_on: Callable[[], None] = lambda: None
    ) -> list[list[Finding] | UnmeasuredLanguage]:
        """The windows of all texts together by the first model, and what it doubts one after the
        other by the second, up to what is enough for a call."""
        readings: list[_Reading] = []
        for one in gated:
            go_on()
            readings.append(_Reading(one, [cut(one.text, *window) for window in one.windows]))
        parts = [part for reading in readings for part in reading.parts]
        first = iter(self._tagger.first(parts, go_on) if parts else ())
        for reading in readings:
            reading.probabilities = list(itertools.islice(first, len(reading.parts)))
        settled: set[int] = set()  # calls, by their `enough`
        settle = functools.partial(self._tagger.settled, go_on=go_on)
        for find, some in (
            (self._tagger.certain, [one for one in readings if one.text.enough is not None]),
            (settle, readings),
        ):
            for reading in some:
                if id(reading.text.enough) not in settled:
                    self._find(reading, find, settled)
        return [
            UnmeasuredLanguage() if reading.text.foreign else reading.findings
            for reading in readings
        ]

    def _find(self, reading: _Reading, find: _Find, settled: set[int]) -> None:
        """The findings in a text; with `enough`, the surest part first, and no further."""
        text, enough, thresholds = reading.text.text, reading.text.enough, self._thresholds
        least, handle = rules.least(thresholds), thresholds["handle"]
        reading.findings = []
        for part, probabilities in reading.surest_first() if enough else reading.in_order():
            if mentions := find(part, probabilities, least, handle):
                findings = rules.findings(text, mentions, thresholds)
                reading.findings += findings
                if enough and any(enough(text, finding) for finding in findings):
                    settled.add(id(enough))
                    break

    def missed(self, languages: Sequence[str]) -> list[str]:
        """Canaries that come out wrong (C8): names of languages and kinds."""
        wrong = [
            f"{kind} ({language}: there is no sample)"
            for language in languages
            for kind in KINDS
            if (language, kind) not in {(lang, k) for lang, k, _ in CANARIES}
        ]
        wrong += self._wrong(languages, self._findings, "")
        if self._gate is not None:
            # guard: C19.gate-canaries
            wrong += self._wrong(languages, self._identifying, ", gate")
        if self._tagger.second is not None:
            # By itself too: what the first is sure of says nothing of the second.
            wrong += self._wrong(languages, self._second_findings, ", second model")
        return wrong

    @staticmethod
    def _wrong(
        languages: Sequence[str], find: Callable[[str], list[Finding]], by: str
    ) -> list[str]:
        sure = [
            (language, kind, {f.type for f in find(text) if f.score >= FULL_NAME})
            for language, kind, text in CANARIES
            if language in languages
        ]
        return [
            f"{kind} ({language}{by})" for language, kind, types in sure if kind not in types
        ] + [f"{f.type} (false alarm{by})" for text in NOBODY for f in find(text)]

    def _findings(self, text: str, lone: bool = True) -> list[Finding]:
        (findings,) = self.read([text], lone=[lone])
        return [] if isinstance(findings, UnmeasuredLanguage) else findings

    def _identifying(self, text: str) -> list[Finding]:
        return self._findings(text, lone=False)

    def _second_findings(self, text: str) -> list[Finding]:
        assert self._tagger.second is not None
        mentions = self._tagger.by(self._tagger.second, text, rules.least(self._thresholds))
        return rules.findings(text, mentions, self._thresholds)
