"""Which findings restrict a call: the one place where entity types get their meaning.

Direct identifiers restrict. Dates, URLs, hardware and record ids alone do not (DESIGN.md, "What
restricts"): they fire on clean prompts and identify nobody by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.config import ClassifySettings
from gateway.types import Finding

HIDDEN_TEXT = "HIDDEN_TEXT"  # invisible or over-encoded text: somebody does not want it read
DENY_LIST = "DENY_LIST"  # a phrase of the operator
SECRET = "SECRET"  # keys, tokens, private keys

ALWAYS = frozenset({HIDDEN_TEXT, DENY_LIST})
"""Restrict whatever `classify.restrict` says."""

_BALANCED = frozenset(
    {
        "AU_MEDICARE",
        "AU_TFN",
        "CN_RESIDENT_NUMBER",
        "CREDIT_CARD",
        "CRYPTO",
        "DE_TAX_ID",
        "EMAIL_ADDRESS",
        "ES_NIE",
        "ES_NIF",
        "FI_PERSONAL_IDENTITY_CODE",
        "IBAN_CODE",
        "IN_AADHAAR",
        "IN_PAN",
        "IP_ADDRESS",
        "IT_FISCAL_CODE",
        "MEDICAL_LICENSE",
        "MEDICAL_RECORD",
        "PERSON",
        "PHONE_NUMBER",
        "PL_PESEL",
        "SECRET",
        "SG_NRIC_FIN",
        "TR_NATIONAL_ID",
        "UK_NHS",
        "UK_NINO",
        "US_BANK_NUMBER",
        "US_DRIVER_LICENSE",  # its bare patterns score 0.3 and less: only beside its words
        "US_ITIN",
        "US_PASSPORT",
        "US_SSN",
    }
)
_STRICT = _BALANCED | {
    "IT_DRIVER_LICENSE",
    "IT_IDENTITY_CARD",
    "IT_PASSPORT",
    "MAC_ADDRESS",
}
PROFILES = {"balanced": _BALANCED, "strict": _STRICT}


@dataclass(frozen=True, slots=True)
class Profile:
    """What restricts, and from which score on."""

    name: str
    types: frozenset[str]
    threshold: float

    @classmethod
    def of(cls, settings: ClassifySettings) -> Profile:
        types = PROFILES[settings.profile] if settings.restrict is None else settings.restrict
        return cls(settings.profile, frozenset(types) | ALWAYS, settings.threshold)

    def restricts(self, findings: Iterable[Finding]) -> bool:
        return any(f.type in self.types and f.score >= self.threshold for f in findings)
