"""Cards and bank accounts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from presidio_analyzer import Pattern
from stdnum import iban

from gateway.classify.cards import is_card_number
from gateway.classify.identifiers import Identifier, labelled

_TELLING = 16  # shorter Maestro numbers have half of their range in common with everything else


class AnyCard(Identifier):
    """Card numbers of every large scheme, 12 to 19 digits in one block or in groups."""

    entity = "CREDIT_CARD"
    hints = (
        *("card", "credit", "debit", "visa", "mastercard", "maestro", "jcb", "amex", "diners"),
        *("karte", "carte", "tarjeta", "carta di", "cartão", "kaart", "kart", "atm", "pan"),
    )
    forms: ClassVar[tuple[Pattern, ...]] = (
        Pattern("one block", r"(?<![\d.])\d{12,19}(?![\d.]\d|\d)", 0.3),
        Pattern(
            "groups",
            r"(?<![\d-])\d{4}[ .-]?\d{4}[ .-]?\d{4}(?:[ .-]?\d{1,4}(?:[ .-]?\d{1,3})?)?(?![\d-])"
            r"|(?<![\d-])\d{4}[ .-]?\d{6}[ .-]?\d{4,5}(?![\d-])"
            r"|(?<![\d-])\d{6}[ .-]\d{10,13}(?![\d-])",
            0.3,
        ),
    )

    def check(self, value: str) -> bool | None:
        digits = re.sub(r"\D", "", value)
        if not is_card_number(digits):
            return False
        maestro = re.match(r"50|5[6-8]|6304|6390|67|0604", digits)
        return None if maestro and len(digits) < _TELLING else True


class AnyIban(Identifier):
    """An account number of ISO 13616 (check digits: ISO 7064, MOD 97-10; structures: the SWIFT IBAN
    registry), in any grouping and in either case. Beside the word, a wrong one counts too."""

    entity = "IBAN_CODE"
    forms: ClassVar[tuple[Pattern, ...]] = (
        Pattern("by itself", r"(?<![A-Z0-9])[A-Z]{2}[ -]?\d\d(?:[ -]?[A-Z0-9]){11,30}", 0.3),
        labelled(
            r"iban",
            r"(?-i:[A-Z]{2})[ -]?\d\d(?:[ -]?(?-i:[A-Z0-9]{2,5})){2,9}(?:[ -]?(?-i:[A-Z0-9]))?",
        ),
    )

    def check(self, value: str) -> bool | None:
        return _iban_in(value) is not None

    def parts(self, text: str, pattern: str, start: int, end: int) -> Iterable[tuple[int, int]]:
        """Without the words after it that could belong to it by their letters."""
        for first, last in super().parts(text, pattern, start, end):
            length = _iban_in(text[first:last])
            yield first, last if length is None else first + length


_SHORTEST = 15  # Norway
_AS_NUMBERS = str.maketrans({chr(ord("A") + at): str(at + 10) for at in range(26)})


def _iban_in(value: str) -> int | None:
    """How many characters at the head of `value` are a valid account number."""
    compact = ""
    for at, character in enumerate(value, 1):
        if character.isalnum():
            compact += character
            whole = at == len(value) or not value[at].isalnum()
            if len(compact) >= _SHORTEST and whole and _checks(compact) and iban.is_valid(compact):
                return at
    return None


def _checks(compact: str) -> bool:
    """ISO 7064, MOD 97-10, before the country's structure is asked for, which takes far longer.
    What is not ASCII is left to that."""
    if not compact.isascii():
        return True
    return int((compact[4:] + compact[:4]).upper().translate(_AS_NUMBERS)) % 97 == 1


_ACCOUNT = r"\d(?:[ /-]?\d){6,25}"


class EnglishBankAccount(Identifier):
    """By Presidio's name for it; its own takes any eight digits near "check" or "save"."""

    entity = "US_BANK_NUMBER"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(
            r"account[ _]?(?:no|nr|num|number|#)|acct|a/c|bank account|savings account"
            r"|checking account|current account|debit account|routing (?:no|number)|wire to",
            _ACCOUNT,
        ),
    )


class BankAccount(Identifier):
    """Account numbers of national forms, beside their words. A BIC (ISO 9362) alone names a bank,
    not a customer, and is none."""

    entity = "BANK_ACCOUNT"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(
            r"kontonummer|konto-?nr|kto|bankverbindung"
            r"|numéro de compte|compte bancaire|n° de compte|rib|número de cuenta|cuenta bancaria"
            r"|cuenta corriente|ccc|numero di conto|conto corrente|c/c|número da conta"
            r"|conta bancária"
            r"|nib|rekeningnummer|bankrekening|numer konta|numer rachunku|rachunek bankowy|nrb"
            r"|konto",
            _ACCOUNT,
        ),
        labelled(
            r"sort code",
            r"\d\d-\d\d-\d\d(?:[\W_]{1,3}(?:[^\W\d_]{1,10}\W{1,3}){0,3}\d{7,8})?",
            "of the United Kingdom",
        ),
        Pattern(
            "sort code and account",
            r"(?<![\w-])\d\d-\d\d-\d\d[ ,;/]{1,3}(?:a/c |acc(?:oun)?t[ :.]{1,2})?\d{8}(?![\w-])",
            0.5,
        ),
    )
