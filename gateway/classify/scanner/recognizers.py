"""The first scanner: Presidio's recognizers over every form of a text, in windows.

Windows keep the cost linear in the length of the text: several of Presidio's expressions are
quadratic. A value across the end of a window stands whole in the next one, because windows overlap
by more than any value that we look for is long (C5).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gateway.classify.gate.needs import Needs
from gateway.classify.gate.recognized import recognizer_needs
from gateway.classify.names import is_lone
from gateway.classify.patterns.engine import PatternEngine
from gateway.classify.profile import HIDDEN_TEXT
from gateway.classify.scanner import effort
from gateway.classify.scanner.engine import build_patterns
from gateway.classify.text import normalise
from gateway.core.types import Finding

if TYPE_CHECKING:
    from gateway.classify.scan_workers.frames import ScanSettings
    from gateway.config import ClassifySettings

WINDOW = 2048
OVERLAP = 320
"""Characters. The longest value sought, an e-mail address, has 254 (RFC 5321 with its erratum
1690); what is left over keeps context words in sight."""

_VERSION = re.compile(r"\b(?:version|release|revision|build|firmware)[\s:=#]{0,3}\Z", re.IGNORECASE)
"""What stands before four numbers with dots that are no address."""
_VERSIONS = re.compile(
    r"\b(?:versions?|releases?|revisions?|builds?|firmware)[\s:=#]{1,3}\d+(?:\.\d+){3}(?!\d)"
    r"(?:(?!\b(?:ip|ipv4|address|adress|host|server|node|client|router|gateway|subnet|ping|dns|proxy|at)\w*\b)"
    r"[^\n!?]){1,80}\Z",
    re.IGNORECASE,
)
"""The same for another one of them in that sentence, where nothing speaks of machines."""
_GROUP = r"\d{4}"
_MANY_GROUPS = re.compile(rf"(?<![\d-]){_GROUP}(?: {_GROUP}){{4,}}(?![\d-])")
_AADHAAR = re.compile(r"aadhaar|aadhar|uidai|\buid\b|आधार", re.IGNORECASE)
_SENTENCE = 120  # characters
_FIGURES = re.compile(r",|\A\d+\.\d+\Z")
"""Decimal numbers and columns of a table, which phonenumbers takes for phone numbers."""


class PresidioScanner:
    """Findings at or over the threshold, offsets in the text as given.

    A finding in a derived form of the text (normalise.py) has the span of the part that the form
    was derived from: that part holds the value, not necessarily nothing else.
    """

    def __init__(
        self, settings: ClassifySettings | ScanSettings, types: frozenset[str] | None = None
    ) -> None:
        """`types` None looks for all; else recognizers of other types never run."""
        self._engine = build_patterns(settings)
        self._threshold = settings.threshold
        self._allow = frozenset(settings.allow_list)
        self._types = {
            language: sorted(_supported(self._engine, language, types))
            for language in settings.languages
        }

    def supported(self) -> frozenset[str]:
        return frozenset(t for types in self._types.values() for t in types) | {HIDDEN_TEXT}

    def needs(self) -> Needs:
        """What a text must hold for any of it to be found."""
        sought = frozenset(t for types in self._types.values() for t in types)
        return recognizer_needs(self._engine.presidio.registry.recognizers, sought, self._threshold)

    @property
    def gated(self) -> bool:
        """Whether the patterns are compiled; else all of them run on every text."""
        return self._engine.gated

    def wait(self) -> None:
        """Until they are, or cannot be."""
        self._engine.wait()

    def first(self, text: str, stops: Callable[[Finding], bool]) -> list[Finding]:
        """What is found up to the first finding that stops: window by window, cheap to costly.
        There is one only if `scan` has one. A lone name never stops it, since it restricts not
        every caller: what restricts may stand behind it. Raises TooMany."""
        findings: list[Finding] = []
        with effort.limited():
            for more in self._bit_by_bit(text):
                findings += more
                if any(stops(f) and not is_lone(f) for f in more):
                    break
        return _unique(findings)

    def _bit_by_bit(self, text: str) -> Iterator[list[Finding]]:
        for start, window in windows(text):
            yield self._in_window(text, start, window)
        forms = normalise.derived(text)
        yield [Finding(HIDDEN_TEXT, start, end, 1.0) for start, end in forms.hidden]
        yield [Finding(t, start, end, 0.8) for t, start, end in forms.values]
        read: set[tuple[str, int, bool]] = set()  # what is written often says the same each time
        for form in forms.pieces:
            lead = normalise.lead(form, text)
            if (form.text, lead, form.phones) in read:
                continue
            read.add((form.text, lead, form.phones))
            for start, window in windows(form.text):
                inside = self._in_window(form.text, start, window)
                yield list(_mapped(_own(inside, form, lead), form, []))

    def scan(self, text: str) -> list[Finding]:
        findings = self._analyze(text)
        forms = normalise.derived(text)
        for form in forms.pieces:
            derived = self._analyze(form.text)
            lead = normalise.lead(form, text)
            findings += _mapped(_own(derived, form, lead), form, findings)
        findings += [Finding(HIDDEN_TEXT, start, end, 1.0) for start, end in forms.hidden]
        findings += [Finding(t, start, end, 0.8) for t, start, end in forms.values]
        return _unique(findings)

    def _analyze(self, text: str) -> list[Finding]:
        findings = []
        for start, window in windows(text):
            findings += self._in_window(text, start, window)
        return _unique(findings)

    def _in_window(self, text: str, start: int, window: str) -> list[Finding]:
        """With offsets in `text`."""
        findings = []
        for finding in self._analyze_window(window):
            at_head = start > 0 and finding.start == 0
            at_tail = start + len(window) < len(text) and finding.end == len(window)
            if (at_head or at_tail) and finding.end - finding.start < OVERLAP // 2:
                continue  # cut by the window; the neighbour has the whole of it
            findings.append(
                Finding(finding.type, start + finding.start, start + finding.end, finding.score)
            )
        return findings

    def _analyze_window(self, text: str) -> list[Finding]:
        return [
            Finding(r.type, r.start, r.end, float(r.score))
            for language, types in self._types.items()
            if types
            for r in self._engine.find(text, language, types, self._threshold)
            if text[r.start : r.end] not in self._allow
            and not _only_alike(r.type, text, r.start, r.end)
        ]


def _only_alike(type_: str, text: str, start: int, end: int) -> bool:
    """Numbers that are known to be something else."""
    if type_ == "IP_ADDRESS":
        before = text[max(0, start - _SENTENCE) : start]
        return _VERSION.search(before[-16:]) is not None or _VERSIONS.search(before) is not None
    if type_ == "IN_AADHAAR":
        return _is_in_list(text, start, end)
    return type_ == "PHONE_NUMBER" and _FIGURES.search(text[start:end]) is not None


def _is_in_list(text: str, start: int, end: int) -> bool:
    """Whether three groups of four digits are some of five and more in a row, which nothing calls
    an Aadhaar number: one number in ten has the right check digit."""
    around = text[max(0, start - _SENTENCE) : end + _SENTENCE]
    first = min(start, _SENTENCE)
    rows = _MANY_GROUPS.finditer(around)
    inside = any(row.start() <= first and first + end - start <= row.end() for row in rows)
    inside = inside or _is_counting(text[start:end])
    return inside and _AADHAAR.search(around) is None


def _is_counting(value: str) -> bool:
    """`4501 4502 4503`: each as much more than the one before."""
    groups = [int(group) for group in re.findall(r"\d{4}", value)]
    return len({b - a for a, b in itertools.pairwise(groups)}) == 1 and len(groups) > 2


def windows(text: str) -> Iterator[tuple[int, str]]:
    """Overlapping windows with their offsets; one for a short text, none for a blank one."""
    if not text or text.isspace():
        return
    start = 0
    while True:
        yield start, text[start : start + WINDOW]
        if start + WINDOW >= len(text):
            return
        start += WINDOW - OVERLAP


def _supported(
    engine: PatternEngine, language: str, types: frozenset[str] | None
) -> frozenset[str]:
    there: frozenset[str] = frozenset(engine.presidio.get_supported_entities(language))
    return there if types is None else there & types


def _own(findings: list[Finding], form: normalise.NormalisedPiece, lead: int) -> list[Finding]:
    """Without what is only in the words before it, and what its digits cannot be."""
    return [f for f in findings if f.end > lead and (form.phones or f.type != "PHONE_NUMBER")]


def _mapped(
    findings: list[Finding], form: normalise.NormalisedPiece, known: list[Finding]
) -> Iterator[Finding]:
    """Findings of a derived form, unless the text itself showed the same type in that part."""
    shown = {f.type for f in known if f.start < form.end and form.start < f.end}
    for type_, score in {f.type: f.score for f in sorted(findings, key=lambda f: f.score)}.items():
        if type_ not in shown:
            yield Finding(type_, form.start, form.end, score)


def _unique(findings: list[Finding]) -> list[Finding]:
    best: dict[tuple[int, int, str], Finding] = {}
    for f in findings:
        key = (f.start, f.end, f.type)
        if key not in best or best[key].score < f.score:
            best[key] = f
    return [best[key] for key in sorted(best)]


class FirstVerdict(PresidioScanner):
    """Stops at the first finding of the types that it was built for."""

    def __init__(
        self, settings: ClassifySettings | ScanSettings, types: frozenset[str] | None = None
    ) -> None:
        super().__init__(settings, types)
        self._stopping = self.supported() if types is None else types

    def scan(self, text: str) -> list[Finding]:
        return self.first(text, lambda finding: finding.type in self._stopping)
