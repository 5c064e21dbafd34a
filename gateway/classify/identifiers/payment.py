"""Cards and bank accounts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from presidio_analyzer import Pattern

from gateway.classify.gate.evidence import CARD_IN_GROUPS, IBAN, iban_in, is_sure_card
from gateway.classify.identifiers import Identifier, labelled


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
            CARD_IN_GROUPS,
            0.3,
        ),
    )

    def check(self, value: str) -> bool | None:
        return is_sure_card(value)


class AnyIban(Identifier):
    """An account number of ISO 13616 (check digits: ISO 7064, MOD 97-10; structures: the SWIFT IBAN
    registry), in any grouping and in either case. Beside the word, a wrong one counts too."""

    entity = "IBAN_CODE"
    forms: ClassVar[tuple[Pattern, ...]] = (
        Pattern("by itself", IBAN, 0.3),
        labelled(
            r"iban",
            r"(?-i:[A-Z]{2})[ -]?\d\d(?:[ -]?(?-i:[A-Z0-9]{2,5})){2,9}(?:[ -]?(?-i:[A-Z0-9]))?",
        ),
    )

    def check(self, value: str) -> bool | None:
        return iban_in(value) is not None

    def parts(self, text: str, pattern: str, start: int, end: int) -> Iterable[tuple[int, int]]:
        """Without the words after it that could belong to it by their letters."""
        for first, last in super().parts(text, pattern, start, end):
            length = iban_in(text[first:last])
            yield first, last if length is None else first + length


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
