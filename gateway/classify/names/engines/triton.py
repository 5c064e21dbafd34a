"""Names on an on-prem endpoint: rows of words go there, logits come back, all else happens here.

No text leaves the gateway's process: words are cut and looked up here, and a row holds numbers.
Calls that come together share batches at the server. They go straight to its door, beside the
gateway's queue, because they decide where the calls in that queue may go.

Whatever goes wrong there restricts: an endpoint that is down, late, or answers what does not fit.
Nor is it believed unasked: every `TRUST_S` seconds, and after each failure, it reads samples first,
and must see in them what the gateway's own copy of the weights sees. Were the weights over there
others, words would be looked up in tables that do not belong to them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from gateway.classify import NoScan, ScanFailed, ScanLate, ScannersBusy, ScannerUnfit
from gateway.classify.names import Enough
from gateway.classify.names.canaries import CANARIES, NOBODY
from gateway.classify.names.engines.reader import NamesReader
from gateway.classify.names.engines.remote import Door, RemoteModel
from gateway.classify.names.gate.windows import NamesGate
from gateway.classify.names.model.card import WEIGHTS, card
from gateway.classify.names.model.features import Features
from gateway.classify.names.model.languages import Languages
from gateway.classify.names.model.second import SecondReading
from gateway.classify.names.model.tagger import (
    OnnxModel,
    Probabilities,
    Tagger,
    TaggerModel,
    load_features,
    load_second,
)
from gateway.classify.names.model.words import cut
from gateway.core import ambient
from gateway.core.deadline import Clock, Deadline
from gateway.core.types import Finding, ServedModel

log = logging.getLogger(__name__)
T = TypeVar("T")

TRUST_S = 30.0
START_S = 5.0  # for the samples at the start; a server that is not up by then is asked again later
THREADS = 16  # calls that are read at once; each mostly waits for the server
APART = 0.25
"""How far a probability may be from the gateway's own. Other arithmetic moves it a little: 32-bit
weights in place of 8-bit ones by 0.02 at most on the samples, another training by 0.9 somewhere."""


class OtherWeights(ScanFailed):
    """The model over there sees other things in the samples than the gateway's own weights."""


class TritonNames:
    def __init__(
        self,
        door: Door | None,
        model: str,
        languages: Sequence[str],
        *,
        other_languages: bool = False,
        max_waiting: int = 256,
        weights: Path = WEIGHTS,
        clock: Clock = ambient.monotonic_s,
    ) -> None:
        """`door`: the on-prem one of the endpoint. An endpoint of another zone has none."""
        self._door = door
        self._served = ServedModel(model)
        self._languages = tuple(languages)
        self._other_languages = other_languages
        self._max_waiting = max_waiting
        self._weights = weights
        self._clock = clock
        self._waiting = 0
        self._own: _Own | None = None
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="names")
        self._running: set[RemoteModel] = set()
        self._checking = asyncio.Lock()
        self._trusted_until_s: float | None = None  # None: it failed since, or was never asked
        self._reported = ""

    async def start(self) -> None:
        """Raises ScannerUnfit where waiting would not help. While a server is not up, or not yet,
        calls that need it are restricted."""
        if self._own is not None:
            return
        if self._door is None:
            raise ScannerUnfit("names may be looked for on the premises only: take a zone onprem")
        try:
            own = await asyncio.to_thread(_Own.load, self._weights, self._other_languages)
            missed = await asyncio.to_thread(own.missed, self._weights, self._languages)
        except Exception as exc:  # noqa: BLE001 - each file has a reader with errors of its own
            raise ScannerUnfit(f"the names model cannot be loaded: {type(exc).__name__}") from None
        if missed:
            raise ScannerUnfit(f"the names model gets its samples wrong: {', '.join(missed)}")
        self._own = own
        try:
            async with asyncio.timeout(START_S):
                await self._trust(own, Deadline.after(START_S, self._clock))
        except OtherWeights:
            raise ScannerUnfit(
                f"the model {self._served.model!r} of the endpoint is not the one of this release; "
                "serve the models/names that belongs to it (python models/build.py --only names)"
            ) from None
        except (NoScan, TimeoutError) as failure:
            self._report(type(failure).__name__)

    async def find(
        self,
        texts: Sequence[str],
        budget_s: float,
        lone: Sequence[bool] | None = None,
        enough: Enough | None = None,
    ) -> list[list[Finding]]:
        if (own := self._own) is None:
            raise ScanFailed("names are not started, or closed")
        if not budget_s > 0:
            raise ScanLate("no time is left to look for names")
        if self._waiting >= self._max_waiting:
            raise ScannersBusy("too many calls wait for their names")
        deadline = Deadline.after(budget_s, self._clock)
        self._waiting += 1
        try:
            async with asyncio.timeout(budget_s):
                await self._trust(own, deadline)
                return await self._reading(
                    deadline, lambda model: own.read(texts, model, lone, enough)
                )
        except TimeoutError:
            raise ScanLate("names were not found in time") from None
        except ScanFailed as failure:
            self._trusted_until_s = None
            self._report(type(failure).__name__)
            raise
        except NoScan:
            raise
        except Exception as exc:  # noqa: BLE001 - restricts; its text and frames may be content
            log.error("names: reading failed: %s", type(exc).__name__)
            raise ScanFailed("names cannot be looked for") from None
        finally:
            self._waiting -= 1

    async def aclose(self) -> None:
        self._own = None
        for model in self._running:
            model.leave()
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)

    async def _trust(self, own: _Own, deadline: Deadline) -> None:
        """Returns once the samples have come out right lately; else raises a NoScan."""
        async with self._checking:  # whoever finds it locked waits for the same answer
            if self._trusted_until_s is not None and self._clock() < self._trusted_until_s:
                return
            self._trusted_until_s = None
            if await self._reading(deadline, own.apart) > APART:
                raise OtherWeights("the samples come out differently")
            self._trusted_until_s = self._clock() + TRUST_S
            self._report("")

    async def _reading(self, deadline: Deadline, work: Callable[[RemoteModel], T]) -> T:
        """Work with the model in a thread, which goes free when the caller leaves."""
        assert self._door is not None
        loop = asyncio.get_running_loop()
        model = RemoteModel(self._door, self._served, deadline, loop)
        self._running.add(model)
        try:
            return await loop.run_in_executor(self._threads, work, model)
        finally:
            model.leave()
            self._running.discard(model)

    def _report(self, failure: str) -> None:
        """Once a change: this is asked for every call."""
        if failure and not self._reported:
            log.warning(
                "names: the model %s cannot be asked (%s); calls that need it are restricted",
                self._served.model,
                failure,
            )
        if self._reported and not failure:
            log.warning("names: the model %s answers again", self._served.model)
        self._reported = failure


@dataclass(frozen=True, slots=True)
class _Own:
    """What the gateway has by itself: all but the first model's tables and layers. The second model
    reads here what the first one over there doubts."""

    features: Features
    gate: NamesGate
    thresholds: dict[str, float]
    second: SecondReading
    expected: list[Probabilities]  # of the samples

    @classmethod
    def load(cls, weights: Path, other_languages: bool) -> _Own:
        model_card = card(weights)
        features = load_features(weights)
        foreign = None
        if not other_languages:
            measured = frozenset(model_card["languages"])
            foreign = Languages.load(weights / "languages.npz", measured, features.lexicon)
        local = Tagger(features, OnnxModel(weights / "first.onnx"))
        expected = local.probabilities(_SAMPLES)
        gate = NamesGate(features.lexicon, foreign)
        return cls(features, gate, model_card["thresholds"], load_second(weights), expected)

    def missed(self, weights: Path, languages: Sequence[str]) -> list[str]:
        return self._reader(OnnxModel(weights / "first.onnx")).missed(languages)

    def read(
        self,
        texts: Sequence[str],
        model: RemoteModel,
        lone: Sequence[bool] | None = None,
        enough: Enough | None = None,
    ) -> list[list[Finding]]:
        results: list[list[Finding]] = []
        for reading in self._reader(model).read(texts, model.go_on, lone, enough):
            if isinstance(reading, NoScan):
                raise copy(reading)  # this frame has `reading`
            results.append(reading)
        return results

    def apart(self, model: RemoteModel) -> float:
        """The largest difference in any probability of any word of the samples."""
        probabilities = Tagger(self.features, model).probabilities(_SAMPLES, model.go_on)
        pairs = zip(probabilities, self.expected, strict=True)
        return max(float(np.abs(there - onprem).max()) for there, onprem in pairs)

    def _reader(self, model: TaggerModel) -> NamesReader:
        return NamesReader(Tagger(self.features, model, self.second), self.gate, self.thresholds)


_SAMPLES = [cut(text) for *_, text in CANARIES] + [cut(text) for text in NOBODY]
