"""Findings out of a text, surrogates into it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from presidio_anonymizer import AnonymizerEngine, OperatorConfig, RecognizerResult
from presidio_anonymizer.operators import Operator, OperatorType

from gateway.classify.pseudonyms import PseudonymDoubt
from gateway.classify.pseudonyms.ledger import SurrogateLedger
from gateway.classify.pseudonyms.remnants import ADDRESS, PERSON, Remnants
from gateway.classify.pseudonyms.surrogates import MAKERS
from gateway.classify.pseudonyms.values.names import name_parts
from gateway.core.types import Finding

_SPARE = {PERSON: 3, "USERNAME": 4}
"""Letters and digits that may stand beside the parts of a name: an ending, or initials."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Masked:
    """One text with surrogates, and where they stand in it."""

    text: str = field(repr=False)
    places: tuple[Span, ...]

    def blank(self, word: str) -> str:
        """The text with a word in the place of each surrogate."""
        pieces, at = [], 0
        for start, end in self.places:
            pieces += [self.text[at:start], word]
            at = end
        return "".join((*pieces, self.text[at:]))


class SurrogateOperator(Operator):
    """presidio-anonymizer's way to replace a finding, with a ledger to draw from."""

    NAME = "surrogate"

    def operate(self, text: str = "", params: dict[str, Any] | None = None) -> str:
        assert params is not None
        ledger: SurrogateLedger = params["ledger"]
        return ledger.surrogate(params["entity_type"], text)

    def validate(self, params: dict[str, Any] | None = None) -> None:
        """Nothing that a caller could get wrong."""

    def operator_name(self) -> str:
        return self.NAME

    def operator_type(self) -> OperatorType:
        return OperatorType.Anonymize


class Masker:
    """presidio-anonymizer over spans that are known to be apart."""

    def __init__(self) -> None:
        silent = logging.getLogger("presidio-anonymizer")
        silent.disabled = True  # it describes what it replaces
        self._engine = AnonymizerEngine()  # type: ignore[no-untyped-call]
        self._engine.add_anonymizer(SurrogateOperator)

    def mask(
        self, texts: Sequence[str], findings: Sequence[Sequence[Finding]], ledger: SurrogateLedger
    ) -> list[Masked]:
        """Each text without its findings, and without what else tells of one found anywhere."""
        apart = [_apart(one) for one in findings]
        apart = _own_spans(texts, apart)
        self._draw(texts, apart, ledger)
        return [
            self._masked(text, [*findings, *_uncovered(text, findings, ledger)], ledger)
            for text, findings in zip(texts, apart, strict=True)
        ]

    def _draw(
        self, texts: Sequence[str], findings: Sequence[Sequence[Finding]], ledger: SurrogateLedger
    ) -> None:
        """Values in mixed case first: what stands in capitals is then theirs in capitals."""
        values = [
            (text[f.start : f.end], f.type)
            for text, findings in zip(texts, findings, strict=True)
            for f in findings
        ]
        ledger.expect((type_, value) for value, type_ in values)
        for value, type_ in sorted(values, key=lambda v: v[0].isupper() or v[0].islower()):
            ledger.surrogate(type_, value)

    def _masked(self, text: str, findings: Sequence[Finding], ledger: SurrogateLedger) -> Masked:
        if not findings:
            return Masked(text, ())
        done = self._engine.anonymize(
            text,
            [RecognizerResult(f.type, f.start, f.end, f.score) for f in findings],
            {"DEFAULT": OperatorConfig(SurrogateOperator.NAME, {"ledger": ledger})},
            merge_entities_with_spaces=False,
        )
        if len(done.items) != len(findings):
            raise PseudonymDoubt("overlap")
        return Masked(done.text, tuple(sorted((i.start, i.end) for i in done.items)))


def _apart(findings: Sequence[Finding]) -> list[Finding]:
    """Findings that do not overlap: of those that do, the one that holds all others."""
    remaining: list[Finding] = []
    for finding in sorted(findings, key=lambda f: (f.start, -f.end, not _known(f), -f.score)):
        if remaining and finding.start < remaining[-1].end:
            if finding.end > remaining[-1].end:
                raise PseudonymDoubt("overlap")
            if (finding.start, finding.end) == (remaining[-1].start, remaining[-1].end):
                continue
        else:
            remaining.append(finding)
    return [f for f in remaining if f.end > f.start]


def _own_spans(texts: Sequence[str], findings: Sequence[Sequence[Finding]]) -> list[list[Finding]]:
    """Without findings that are a part of another value, or another spelling of it: a family name
    alone, a number as it is dialled at home, a login. These are replaced as what they are."""
    values = {
        text[f.start : f.end]: f.type
        for text, findings in zip(texts, findings, strict=True)
        for f in findings
        if _known(f)
    }
    wholes = {value: type_ for value, type_ in values.items() if _is_whole(type_, value)}
    remnants = Remnants(wholes)
    return [
        [f for f in findings if not _is_part(f, text[f.start : f.end], wholes, remnants)]
        for text, findings in zip(texts, findings, strict=True)
    ]


def _is_whole(type_: str, value: str) -> bool:
    if type_ == PERSON:
        return len(name_parts(value)) > 1
    return type_ != "PHONE_NUMBER" or "+" in value or value.startswith("00")


def _is_part(finding: Finding, value: str, wholes: Mapping[str, str], remnants: Remnants) -> bool:
    if value in wholes and _known(finding):
        return False
    return remnants.cover(value, _SPARE.get(finding.type, 0))


def _known(finding: Finding) -> bool:
    return finding.type in (PERSON, ADDRESS) or finding.type in MAKERS


def _uncovered(
    text: str, findings: Sequence[Finding], ledger: SurrogateLedger
) -> Iterator[Finding]:
    """What tells of an original beside the findings, whoever found it."""
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = text
    wholes = [
        Finding(type_, start, end, 1.0)
        for value, type_ in ledger.originals.items()
        for start, end in (
            places(text, value) if type_ == PERSON else places(lowered, value.lower())
        )
    ]
    taken = list(findings)
    for whole in sorted(wholes, key=lambda f: (f.start, -f.end)):
        if not any(whole.start < f.end and f.start < whole.end for f in taken):
            taken.append(whole)
            yield whole
    for remnant in ledger.remnants.find(text):
        if any(remnant.start < f.end and f.start < remnant.end for f in taken):
            continue
        ledger.spell(remnant, text[remnant.start : remnant.end])
        yield Finding(remnant.type, remnant.start, remnant.end, 1.0)


def places(text: str, word: str) -> Iterator[Span]:
    """Where a word stands by itself."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
            yield at, end
        at = text.find(word, at + 1)
