"""The names model at work on texts: gate, first model, second model and rules together."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gateway.classify import NoScan
from gateway.classify.names import FULL_NAME, Enough, rules
from gateway.classify.names.canaries import CANARIES, KINDS, NOBODY
from gateway.classify.names.gate.windows import GatedText, NamesGate
from gateway.classify.names.model.card import WEIGHTS, card
from gateway.classify.names.model.labels import INSIDE
from gateway.classify.names.model.languages import Languages
from gateway.classify.names.model.tagger import Mention, Probabilities, Tagger
from gateway.classify.names.model.words import TextWords, cut
from gateway.core.types import Finding


class UnmeasuredLanguage(NoScan):
    """The text is in a language that the model was never measured on."""

    reason = "unmeasured_language"


_Find = Callable[[TextWords, Probabilities, float, float], list[Mention]]


@dataclass(slots=True, eq=False)
class _FirstReading:
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
        readings: list[_FirstReading] = []
        for one in gated:
            go_on()
            readings.append(_FirstReading(one, [cut(one.text, *window) for window in one.windows]))
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

    def _find(self, reading: _FirstReading, find: _Find, settled: set[int]) -> None:
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
