"""Which findings restrict a call: the one place where entity types get their meaning.

Direct identifiers restrict. Dates, URLs, hardware and record ids alone do not (DESIGN.md, "What
restricts"): they fire on clean prompts and identify nobody by themselves.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.classify.names import is_lone
from gateway.core.types import NOT_TIGHTENED, Finding, Tightening

if TYPE_CHECKING:
    from gateway.config import ClassifySettings

HIDDEN_TEXT = "HIDDEN_TEXT"  # invisible or over-encoded text: somebody does not want it read
DENY_LIST = "DENY_LIST"  # a phrase of the operator
SECRET = "SECRET"  # keys, tokens, private keys

ALWAYS = frozenset({HIDDEN_TEXT, DENY_LIST})
"""Restrict whatever `classify.restrict` says."""

_BALANCED = frozenset(
    (  # noqa: SIM905 - a line instead of ten
        "AE_EMIRATES_ID AT_SVNR AU_MEDICARE AU_TFN BANK_ACCOUNT BE_NATIONAL_NUMBER BR_CNPJ BR_CPF "
        "CH_AHV CN_RESIDENT_NUMBER CREDIT_CARD CRYPTO CUSTOMER_NUMBER CZ_BIRTH_NUMBER "
        "DE_HEALTH_INSURANCE DE_ID_CARD DE_SOCIAL_SECURITY DE_TAX_ID DE_TAX_NUMBER DK_CPR "
        "DRIVER_LICENSE EMAIL_ADDRESS EMPLOYEE_NUMBER ES_NIE ES_NIF ES_NSS "
        "FI_PERSONAL_IDENTITY_CODE FR_NIR FR_TAX_ID HEALTH_INSURANCE_NUMBER IBAN_CODE ID_CARD "
        "IE_PPS IN_AADHAAR IN_PAN IP_ADDRESS IT_FISCAL_CODE IT_VAT_CODE KR_RRN MEDICAL_LICENSE "
        "MEDICAL_RECORD MX_CURP NATIONAL_ID NL_BSN NO_FODSELSNUMMER PASSPORT PERSON PHONE_NUMBER "
        "PL_ID_CARD PL_LAND_REGISTER PL_NIP PL_PESEL PL_REGON PROVIDER_NUMBER PT_NIF RO_CNP "
        "SECRET SE_PERSONNUMMER SG_NRIC_FIN STREET_ADDRESS TR_NATIONAL_ID UK_NHS UK_NINO "
        "US_BANK_NUMBER US_DRIVER_LICENSE US_ITIN US_NPI US_PASSPORT US_SSN VEHICLE_PLATE"
    ).split()
)
"""US_DRIVER_LICENSE only beside its words: its bare patterns score 0.3 and less."""
_STRICT = _BALANCED.union(
    (  # noqa: SIM905 - a line instead of ten
        "DATE_OF_BIRTH EU_VAT_NUMBER IT_DRIVER_LICENSE IT_IDENTITY_CARD IT_PASSPORT MAC_ADDRESS "
        "POSTAL_CODE USERNAME"
    ).split()
)
_PATTERNS = _BALANCED - {"PERSON"}  # what has a form; names are not looked for
PROFILES = {"patterns": _PATTERNS, "balanced": _BALANCED, "strict": _STRICT}


@dataclass(frozen=True, slots=True)
class Profile:
    """What restricts, and from which score on."""

    name: str
    types: frozenset[str]
    threshold: float
    lone_names: bool = True  # else a PERSON restricts only if the name identifies its bearer

    @classmethod
    def from_settings(
        cls, settings: ClassifySettings, added: Tightening = NOT_TIGHTENED
    ) -> Profile:
        """Of the gateway, and of a caller that adds to it: whatever it adds, nothing is taken."""
        types = PROFILES[settings.profile] if settings.restrict is None else settings.restrict
        more = added.types | (PROFILES[added.profile] if added.profile else frozenset())
        classed = {kind for its in settings.classes.values() for kind in its.entities}
        name = (Tightening(settings.profile) | added).profile or settings.profile
        return cls(
            name,
            frozenset(types) | more | ALWAYS | classed,
            min(settings.threshold, added.threshold),
            name == "strict",
        )

    @classmethod
    def widest(cls, settings: ClassifySettings, added: Iterable[Tightening]) -> Profile:
        """All that restricts any caller: what scanners have to look for."""
        return cls.from_settings(settings, functools.reduce(operator.or_, added, NOT_TIGHTENED))

    def restricts(self, findings: Iterable[Finding]) -> bool:
        return any(
            f.type in self.types
            and f.score >= self.threshold
            and (self.lone_names or not is_lone(f))
            for f in findings
        )
