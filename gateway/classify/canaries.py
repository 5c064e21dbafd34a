"""Samples that a scanner must get right before it is trusted (C8). All of them are invented or the
published test values of their issuers."""

from __future__ import annotations

from gateway.classify.profile import DENY_LIST, HIDDEN_TEXT, Profile
from gateway.config import ClassifySettings

# (entity type, languages in which its recognizer is on by default; None for all, sample)
_POSITIVE: tuple[tuple[str, frozenset[str] | None, str], ...] = (
    ("CN_RESIDENT_NUMBER", None, "11010519491231002X"),
    ("CREDIT_CARD", None, "4111 1111 1111 1111"),
    ("CRYPTO", None, "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"),
    ("DE_TAX_ID", None, "86095742719"),
    ("EMAIL_ADDRESS", None, "maria.keller@posteo.example"),
    ("ES_NIE", frozenset({"es"}), "X9613851N"),
    ("ES_NIF", None, "12345678Z"),
    ("FI_PERSONAL_IDENTITY_CODE", None, "131052-308T"),
    ("IBAN_CODE", None, "DE89 3704 0044 0532 0130 00"),
    ("IN_AADHAAR", None, "2345 6789 0124"),
    ("IP_ADDRESS", None, "203.0.113.77"),
    ("IT_DRIVER_LICENSE", frozenset({"it"}), "patente AA1234567B"),
    ("IT_FISCAL_CODE", None, "RSSMRA85T10A562S"),
    ("IT_IDENTITY_CARD", frozenset({"it"}), "carta d'identita CA12345AA"),
    ("IT_PASSPORT", frozenset({"it"}), "passaporto YA1234567"),
    ("MAC_ADDRESS", None, "00:1A:2B:3C:4D:5E"),
    ("MEDICAL_LICENSE", None, "AB1234563"),
    ("MEDICAL_RECORD", None, "MRN 00482913"),
    ("PHONE_NUMBER", None, "+1 212 555 0198"),
    ("PL_PESEL", None, "44051401359"),
    ("SECRET", None, "-----BEGIN RSA PRIVATE KEY-----"),
    ("TR_NATIONAL_ID", None, "10000000146"),
    ("UK_NHS", frozenset({"en"}), "943 476 5919"),
    ("UK_NINO", None, "AA123456C"),
    ("US_BANK_NUMBER", frozenset({"en"}), "my bank account is 945456787654"),
    ("US_DRIVER_LICENSE", frozenset({"en"}), "my driver license is A56319335"),
    ("US_ITIN", frozenset({"en"}), "911-70-1234"),
    ("US_PASSPORT", frozenset({"en"}), "my passport is 912803456"),
    ("US_SSN", frozenset({"en"}), "536-90-4399"),
    (HIDDEN_TEXT, None, "card \U000e0034\U000e0031\U000e0031\U000e0031"),
)
NEGATIVES = (
    "The quick brown fox jumps over the lazy dog.",
    "Sort [3, 1, 2] and return the 2 largest values; version 3.11.4 of the library.",
    "SHA 4111111111111112 is not a card",
)


def positives(settings: ClassifySettings) -> tuple[tuple[str, str], ...]:
    """One sample for each restricting type that must be found in the configured languages."""
    types = Profile.of(settings).types
    found = [
        (type_, sample)
        for type_, languages, sample in _POSITIVE
        if type_ in types and (languages is None or languages & set(settings.languages))
        if sample not in settings.allow_list
    ]
    if settings.deny_list and settings.deny_list[0] not in settings.allow_list:
        found.append((DENY_LIST, settings.deny_list[0]))
    return tuple(found)


def required(settings: ClassifySettings) -> frozenset[str]:
    """Types that the operator named: each needs a recognizer. A profile's own list may name types
    of languages that are not configured."""
    return frozenset(settings.restrict or ())
