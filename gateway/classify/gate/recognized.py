"""What the recognizers of a scanner look for, in a form that the gate can be built from.

The scanner tells (in its own process, where Presidio is); the gate never assumes. A recognizer that
is of no kind known here makes the gate fire on every text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from presidio_analyzer import EntityRecognizer, Pattern, PatternRecognizer
from presidio_analyzer.predefined_recognizers import IpRecognizer, MedicalLicenseRecognizer

from gateway.classify.gate.needs import ExpressionNeed, Needs
from gateway.classify.identifiers import LABELLED, LINKS, payment, world
from gateway.classify.identifiers.credentials import PHRASES, PURPOSE, RecoveryPhrase
from gateway.classify.identifiers.documents import CODE
from gateway.classify.identifiers.enrolled import (
    WORDS,
    CustomerNumber,
    EmployeeNumber,
    StudentNumber,
)
from gateway.classify.identifiers.romance import ItalianFiscalCode
from gateway.classify.identifiers.street import LABELS, NO_YEAR, StreetAddress
from gateway.classify.identifiers.telephone import (
    LABEL_BEHIND,
    LABELLED_BEHIND,
    LEAST,
    NOUN_FORM,
    VERB_FORM,
)

# Expressions that also match everyday text ("in 20 pencils and 3"), and what more their recognizers
# ask of a match: a country, and the head of an account number as the SWIFT IBAN registry has it.
_NUMERIC = (
    "AE|AT|BA|BE|BI|BR|CR|CZ|DE|DJ|DK|EE|EG|ES|FI|FO|GL|HR|HU|IL|IS|LT|LY|ME|MN|MR|NO|PL|PT|RS|RU"
    "|SD|SE|SI|SK|SO|ST|TL|TN|VA|XK"
)
_BANK_LETTERS = "AZ|BH|GI|KW|LC|LV|PK|PS|QA|RO|JO|YE|MT|BG|GB|HN|IE|IQ|MU|NI|NL|SC|SV|VG"
IBAN = (
    rf"(?:{_NUMERIC})[ -]?\d\d(?:[ -]?\d){{11}}"
    rf"|(?:{_BANK_LETTERS})[ -]?\d\d(?:[ -]?[A-Z]){{4}}(?:[ -]?[A-Z0-9]){{7}}"
    r"|(?:IT|SM)[ -]?\d\d[ -]?[A-Z](?:[ -]?\d){10}"
    r"|(?:CH|LI|TR|UA|GR|AD|AL|CY|FR|MC)[ -]?\d\d(?:[ -]?\d){5}(?:[ -]?[A-Z0-9]){6}"
    r"|LB[ -]?\d\d(?:[ -]?\d){4}(?:[ -]?[A-Z0-9]){7}"
    r"|(?:KZ|LU|MK|OM)[ -]?\d\d(?:[ -]?\d){3}(?:[ -]?[A-Z0-9]){8}"
    r"|SA[ -]?\d\d(?:[ -]?\d){2}(?:[ -]?[A-Z0-9]){9}"
    r"|(?:FK|GE)[ -]?\d\d(?:[ -]?[A-Z]){2}(?:[ -]?\d){9}"
    r"|BY[ -]?\d\d(?:[ -]?[A-Z0-9]){4}(?:[ -]?\d){4}(?:[ -]?[A-Z0-9]){3}"
    r"|DO[ -]?\d\d(?:[ -]?[A-Z0-9]){4}(?:[ -]?\d){7}"
    r"|(?:GT|MD)[ -]?\d\d(?:[ -]?[A-Z0-9]){11}"
)
_SHARED_KEY = r"(?:AccountKey|SharedAccessKey)=[A-Za-z0-9+/]{40,100}={0,2}"
_OCTET = r"(?:25[0-5]|2[0-4]\d|[01]?\d\d?)"
_ADDRESS_4 = next(p.regex for p in IpRecognizer.PATTERNS if p.regex.startswith(r"\b(?:25[0-5]|"))
# Not in the networks that every house has (contact.py): 10, 127, 169.254, 172.16, 192.168, 255.255.
# What starts with a zero is left to the scanner.
_PUBLIC_4 = (
    r"(?<!\w)(?:(?:0\d\d?|[1-9]|1[1-9]|[2-9]\d|1[01]\d|12[0-689]|1[345]\d|16[0-8]|17[013-9]"
    rf"|18\d|19[013-9]|2[0-4]\d|25[0-4])\.{_OCTET}"
    r"|169\.(?:\d\d?|[01]\d\d|2[0-46-9]\d|25[0-35-9])"
    r"|172\.(?:\d|0\d|1[0-5]|3[2-9]|[4-9]\d|[012]\d\d)"
    r"|192\.(?:\d\d?|[02]\d\d|1[0-57-9]\d|16[0-79])"
    r"|255\.(?:\d\d?|[01]\d\d|2[0-4]\d|25[0-4]))"
    rf"\.{_OCTET}\.{_OCTET}"
)
_NO_DIGIT = r"[^\d;!?§€$%]*"


def _value(expression: str) -> str:
    """What a labelled expression ends in: there are few numbers of as many digits."""
    return expression.partition("(?P<value>")[2].rpartition(")(?![\\w])")[0]


_ENROLLED = rf"(?<![^\W_])(?:{WORDS})"
_ENROLLED_NUMBER = rf"{_ENROLLED}(?![^\W\d_]){_NO_DIGIT}\d(?:[-./]?\d){{3}}"
NARROWER = {
    **{
        kind.forms[0].regex: _ENROLLED_NUMBER
        for kind in (CustomerNumber, EmployeeNumber, StudentNumber)
    },
    **{
        form.regex: _value(form.regex)
        for kind in (payment.PolishAccount, payment.MexicanClabe, world.KoreanNumber)
        for form in kind.forms
        if form.name.startswith(LABELLED)
    },
    payment.RoutedAccount.forms[0].regex: payment.RoutedAccount.forms[0].regex.partition(
        "[\\W_]{1,6}"
    )[0],
    RecoveryPhrase.forms[0].regex: f"(?i:{PHRASES})",
    NOUN_FORM.regex: NOUN_FORM.regex.partition("(?P<value>")[0] + LEAST,
    VERB_FORM.regex: VERB_FORM.regex.partition("(?P<value>")[0] + LEAST,
    LABELLED_BEHIND.regex: rf"\d(?:{LABEL_BEHIND})",
    _ADDRESS_4: _PUBLIC_4,
    rf"{_SHARED_KEY}|(?<=[?&]sig=)[\w%+/-]{{40,100}}": (
        rf"{_SHARED_KEY}|[?&]sig=[\w%+/-]{{40,100}}"
    ),
    r"(?<![A-Z0-9])[A-Z]{2}[ -]?\d\d(?:[ -]?[A-Z0-9]){11,30}": IBAN,
    r"(?<![A-Z0-9])([A-Z]{2}[0-9]{2}(?:[ -]?[A-Z0-9]{4}){2,6})((?:[ -]?[A-Z0-9]{4})?)"
    r"((?:[ -]?[A-Z0-9]{1,3})?)(?![A-Z0-9])": IBAN,
}

# A number of a document stands at the end of its expression, and has a digit near its head: said in
# a condition, which the gate does not read.
_DOCUMENT_NUMBER = rf"(?P<value>{CODE})(?![\w])(?![.,]\d)"
_HEAD_WITH_DIGIT = r"(?:(?-i:[A-Z]{1,4})[ -])?\w{0,5}\d"

_TWO_COLONS = ":[0-9A-Fa-f]{0,4}:"
_ADDRESS_6 = tuple(
    p.regex
    for p in IpRecognizer.PATTERNS
    if p.regex.startswith((r"(?<![\w:])(?:", r"(?<![\w:])::(?:/"))
)
_FISCAL_TAIL = r"[\dLMNP-V]{2}[A-EHLMPR-T][\dLMNP-V]{2} ?[A-Z][\dLMNP-V]{3} ?[A-Z](?![\w-])"
_FISCAL = next(p.regex for p in ItalianFiscalCode.forms if p.name == "by itself")
_STREETS = {p.name: p.regex for p in StreetAddress.forms}
_ENGLISH_STREETS = tuple(_STREETS[name] for name in _STREETS if name.startswith("English"))
SIGNS = {
    # \s for a space, which Hyperscan would take for what is rare, and look at each of a text.
    **dict.fromkeys(_ENGLISH_STREETS, r"\d[A-Za-z]?,?\s(?:(?-i:[A-Z])|[^\x00-\x7f]|\d)"),
    IBAN: r"(?<![A-Z0-9])[A-Z]{2}[ -]?\d\d(?:[ -]?[A-Z\d]){11}",
    **dict.fromkeys(_ADDRESS_6, _TWO_COLONS),
    _STREETS["beside its words"]: rf"(?<!\w){LABELS}[\s:*\"']",
    _FISCAL: _FISCAL_TAIL,
    _ENROLLED_NUMBER: _ENROLLED,
}
"""What stands in every match of expressions that begin with what is in almost any text."""
_ENGLISH_STREET = _STREETS["English: number, name, street word"]
CONFIRMED = {
    # Without the condition on what stands some characters before: a window of the scanner may begin
    # between them.
    _ENGLISH_STREET: _ENGLISH_STREET.replace(NO_YEAR, ""),
    **{pattern.regex: pattern.regex for pattern in MedicalLicenseRecognizer.PATTERNS},
}
"""What Python asks after Hyperscan: the expressions with conditions on what follows that everyday
text meets, and with check digits."""


def recognizer_needs(
    recognizers: Iterable[EntityRecognizer], types: frozenset[str], threshold: float
) -> Needs:
    """What must stand in a text for one of `recognizers` to find one of `types` in it."""
    needs: dict[ExpressionNeed, None] = {}
    unknown: dict[str, None] = {}
    for recognizer in recognizers:
        if not types & set(recognizer.supported_entities):
            continue
        if isinstance(recognizer, PatternRecognizer) and not _matches_otherwise(recognizer):
            needs.update(dict.fromkeys(_pattern_needs(recognizer, threshold)))
        else:
            untyped: Any = recognizer
            unknown[str(untyped.name)] = None
    return Needs(tuple(needs), tuple(unknown))


def _matches_otherwise(recognizer: PatternRecognizer) -> bool:
    """Whether it does more than narrow down what its expressions match. Those of this package and
    of Presidio are known not to."""
    kind: Any = type(recognizer)
    known = kind.__module__.startswith(("gateway.classify.", "presidio_analyzer."))
    return not known and any(
        getattr(kind, name) is not getattr(PatternRecognizer, name)
        for name in ("analyze", "_PatternRecognizer__analyze_patterns")
    )


def _pattern_needs(recognizer: PatternRecognizer, threshold: float) -> Iterable[ExpressionNeed]:
    words = _required_context(recognizer)
    untyped: Any = recognizer
    patterns: list[Pattern] = untyped.patterns
    for pattern in patterns:
        if pattern.score >= threshold or words is None:
            yield _need(recognizer, pattern.regex, ())
        elif words:  # without words nothing lifts its score
            yield _need(recognizer, pattern.regex, words)


def _need(recognizer: PatternRecognizer, expression: str, words: tuple[str, ...]) -> ExpressionNeed:
    wanted = NARROWER.get(expression, expression)
    wanted = wanted.replace(_DOCUMENT_NUMBER, _HEAD_WITH_DIGIT).replace(LINKS, _NO_DIGIT)
    wanted = wanted.replace(PURPOSE, r"[^\d\n.;!?]*")
    flags = int(recognizer.global_regex_flags or 0)
    name, sign = type(recognizer).__name__, SIGNS.get(wanted, "")
    return ExpressionNeed(name, wanted, flags, words, sign, CONFIRMED.get(wanted, ""))


def _required_context(recognizer: PatternRecognizer) -> tuple[str, ...] | None:
    """The words without which a weak score stays weak; None if something else may lift it."""
    kind: Any = type(recognizer)
    if kind.validate_result is not PatternRecognizer.validate_result:
        return None
    if kind.enhance_using_context is not EntityRecognizer.enhance_using_context:
        return None
    return tuple(word.lower() for word in recognizer.context or ())
