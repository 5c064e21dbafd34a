"""Recognizers of ours beside Presidio's, where its own leave out what restricts.

Measured in November 2026 on the development sets: Presidio drops addresses whose last label is not
a public suffix (`@corp.internal`, `@posteo.example`), leaves out Maestro, 2-series Mastercard, JCB
and 19-digit cards, and has nothing for keys and tokens, for medical record numbers and for China's
resident numbers. Its URL pattern finds `os.sy` in code, and needs two seconds for 2 KB of `a.a.a.`.
"""

from __future__ import annotations

import re

from presidio_analyzer import Pattern, PatternRecognizer


class AnyDomainEmail(PatternRecognizer):
    """An address at any domain of two labels or more, public or not (RFC 5321, section 4.5.3.1:
    64 characters before the @). The bounded repeats keep the cost linear."""

    def __init__(self, supported_language: str = "en") -> None:
        super().__init__(
            supported_entity="EMAIL_ADDRESS",
            name=type(self).__name__,
            patterns=[
                Pattern(
                    "address at any domain",
                    r"(?<![\w.+-])[\w][\w.+'-]{0,63}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,63}\b",
                    0.5,
                )
            ],
            context=["email", "mail", "contact"],
            supported_language=supported_language,
        )


# IIN ranges of the schemes (ISO/IEC 7812; their own published ranges): Visa 4, Mastercard 51-55
# and 2221-2720, Amex 34 and 37, Diners 30, 36, 38 and 39, JCB 35, 2131 and 1800, Discover
# 6011 and 64-65, UnionPay 62, Maestro 50 and 56-58 and 6304, 6759, 676.
_IIN = re.compile(
    r"4|5[0-8]|1800|2131|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)|3[0-9]|6(?:011|2|304|4|5|759|76)"
)
_LENGTHS = range(13, 20)


def is_card_number(digits: str) -> bool:
    """A length and a range that cards have, and the check digit of ISO/IEC 7812-1, annex B."""
    if len(digits) not in _LENGTHS or not _IIN.match(digits) or len(set(digits)) == 1:
        return False
    doubled = [int(d) * 2 for d in digits[-2::-2]]
    total = sum(map(int, digits[-1::-2])) + sum(d - 9 if d > 9 else d for d in doubled)
    return total % 10 == 0


class AnyCard(PatternRecognizer):
    """Card numbers of every large scheme, 13 to 19 digits in one block or in groups."""

    def __init__(self, supported_language: str = "en") -> None:
        super().__init__(
            supported_entity="CREDIT_CARD",
            name=type(self).__name__,
            patterns=[
                Pattern("one block", r"(?<![\d.])\d{13,19}(?![\d.]\d|\d)", 0.3),
                Pattern(
                    "groups", r"(?<![\d-])\d{4}(?:[ -]\d{4,6}){2,3}(?:[ -]\d{1,5})?(?![\d-])", 0.3
                ),
            ],
            context=["card", "credit", "debit", "visa", "mastercard", "maestro", "jcb", "amex"],
            supported_language=supported_language,
        )

    def validate_result(self, pattern_text: str) -> bool:
        return is_card_number(re.sub(r"\D", "", pattern_text))


class InternationalPhone(PatternRecognizer):
    """A + and 8 to 15 digits (ITU-T E.164), however grouped. Presidio asks phonenumbers whether the
    number is valid in one of eight regions, which leaves out most of the world."""

    def __init__(self, supported_language: str = "en") -> None:
        super().__init__(
            supported_entity="PHONE_NUMBER",
            name=type(self).__name__,
            patterns=[
                Pattern(
                    "plus and digits",
                    r"(?<![\w+])\+[ ]?\d(?:[ .\-()/]{0,2}\d){7,14}(?![\d])",
                    0.5,
                ),
                Pattern(
                    "dialled abroad, in groups",
                    r"(?<![\w.,+-])(?:00|011)[ .-]?[1-9]\d{0,3}(?:[ .-]\d{2,4}){2,4}"
                    r"(?![\w-]|[.,]\d)",
                    0.4,
                ),
            ],
            context=["phone", "tel", "mobile", "cell", "call", "fax", "whatsapp"],
            supported_language=supported_language,
        )


class MedicalRecordNumber(PatternRecognizer):
    """A number that its label calls one. Hospitals number as they like: only the label tells."""

    def __init__(self, supported_language: str = "en") -> None:
        number = r"[\s:#*`(|-]{0,8}(?:[A-Z]{1,4}-?)?\d{4,12}\b"
        super().__init__(
            supported_entity="MEDICAL_RECORD",
            name=type(self).__name__,
            patterns=[
                Pattern("MRN", rf"\bMRN(?: (?:no\.?|number|is))?{number}", 0.6),
                Pattern(
                    "in words",
                    r"\b(?:medical record|patient)s?(?: (?:no\.?|numbers?|ids?))?(?: is)?" + number,
                    0.6,
                ),
            ],
            supported_language=supported_language,
        )


class ChineseResidentNumber(PatternRecognizer):
    """Region, date of birth, serial number and a check character (GB 11643-1999: ISO 7064,
    MOD 11-2)."""

    def __init__(self, supported_language: str = "en") -> None:
        super().__init__(
            supported_entity="CN_RESIDENT_NUMBER",
            name=type(self).__name__,
            patterns=[
                Pattern(
                    "18 characters",
                    r"(?<!\d)[1-8]\d{5}(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])\d{3}[\dXx](?!\d)",
                    0.3,
                )
            ],
            supported_language=supported_language,
        )

    def validate_result(self, pattern_text: str) -> bool:
        rest = sum(int(d) * 2 ** (17 - at) for at, d in enumerate(pattern_text[:17])) % 11
        return "10X98765432"[rest] == pattern_text[17].upper()


class Link(PatternRecognizer):
    """An address of the web with its scheme, or with `www.` before it."""

    def __init__(self, supported_language: str = "en") -> None:
        super().__init__(
            supported_entity="URL",
            name=type(self).__name__,
            patterns=[
                Pattern("scheme", r"\b(?:https?|ftp)://[^\s<>\"'`]{3,1000}", 0.6),
                Pattern("www", r"(?<![\w/.])www\.[\w-]{1,63}\.[^\s<>\"'`]{2,1000}", 0.5),
            ],
            supported_language=supported_language,
        )


class Secret(PatternRecognizer):
    """Keys whose issuers gave them a head of their own, and PEM private keys (RFC 7468)."""

    def __init__(self, supported_language: str = "en") -> None:
        super().__init__(
            supported_entity="SECRET",
            name=type(self).__name__,
            global_regex_flags=re.MULTILINE,
            patterns=[
                Pattern("PEM private key", r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----", 1.0),
                Pattern("AWS access key id", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", 0.9),
                Pattern("GitHub token", r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b", 0.9),
                Pattern("Slack token", r"\bxox[abprs]-[A-Za-z0-9-]{10,250}\b", 0.9),
                Pattern("Google API key", r"\bAIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])", 0.9),
                Pattern("Stripe key", r"\b[sr]k_live_[A-Za-z0-9]{16,250}\b", 0.9),
                Pattern(
                    "key of a model provider",
                    r"\bsk-(?:proj-|ant-)?[A-Za-z0-9_-]{32,250}(?![A-Za-z0-9_-])",
                    0.8,
                ),
            ],
            supported_language=supported_language,
        )


ADDITIONS = (
    AnyDomainEmail,
    AnyCard,
    InternationalPhone,
    MedicalRecordNumber,
    ChineseResidentNumber,
    Link,
    Secret,
)
REPLACED = frozenset({"UrlRecognizer"})
"""Presidio's recognizers that never run: `Link` stands in for it."""
