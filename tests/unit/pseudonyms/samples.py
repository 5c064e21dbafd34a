"""Texts with values in known places, as a finder would report them. All of them are invented or the
published test values of their issuers."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from gateway.classify.pseudonyms.answers.restorer import Restorer
from gateway.classify.pseudonyms.ledger import SurrogateLedger
from gateway.classify.pseudonyms.masking import Masked, Masker
from gateway.core.types import Finding

VALUES: tuple[tuple[str, str], ...] = (
    ("PERSON", "Maria Keller"),
    ("PERSON", "Jürgen von Müller-Lüdenscheidt"),
    ("PERSON", "Łukasz O'Brien"),
    ("PERSON", "J. R. Hartley"),
    ("PERSON", "Иван Петров"),
    ("EMAIL_ADDRESS", "maria.keller@posteo.example"),
    ("EMAIL_ADDRESS", "o'brien+bills@mail.firma.de"),
    ("PHONE_NUMBER", "+49 176 12345678"),
    ("PHONE_NUMBER", "(212) 555-7788"),
    ("PHONE_NUMBER", "+44 20 7183 8750"),
    ("PHONE_NUMBER", "0033 6 12 34 56 78"),
    ("CREDIT_CARD", "4111 1111 1111 1111"),
    ("CREDIT_CARD", "378282246310005"),
    ("IBAN_CODE", "DE89 3704 0044 0532 0130 00"),
    ("IBAN_CODE", "GB29NWBK60161331926819"),
    ("US_SSN", "536-90-4399"),
    ("IP_ADDRESS", "10.20.30.40"),
    ("IP_ADDRESS", "fe80::1ff:fe23:4567:890a"),
    ("MAC_ADDRESS", "00:1A:2B:3C:4D:5E"),
    ("UK_NHS", "943 476 5919"),
    ("UK_NINO", "AA 12 34 56 C"),
    ("MEDICAL_RECORD", "MRN 00482913"),
    ("STREET_ADDRESS", "221B Baker Street, London"),
)


def found(text: str, values: Sequence[tuple[str, str]] = VALUES) -> list[Finding]:
    """Every place of every value."""
    spans = []
    for type_, value in values:
        at = text.find(value)
        while at >= 0:
            spans.append(Finding(type_, at, at + len(value), 1.0))
            at = text.find(value, at + 1)
    return spans


MASKER = Masker()


def masked(texts: Sequence[str], seed: int = 0) -> tuple[list[Masked], SurrogateLedger]:
    ledger = SurrogateLedger(texts, Random(seed))
    return MASKER.mask(texts, [found(text) for text in texts], ledger), ledger


def masked_one(text: str, seed: int = 0) -> tuple[str, Restorer]:
    (one,), ledger = masked([text], seed)
    return one.text, Restorer(ledger.forms)
