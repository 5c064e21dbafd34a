"""Cards and bank accounts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from presidio_analyzer import Pattern
from stdnum import iban
from stdnum.us import rtn

from gateway.classify.gate.evidence import CARD_IN_GROUPS, IBAN, iban_in, is_sure_card
from gateway.classify.identifiers import LABELLED, Identifier, bare, labelled


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


class PolishAccount(Identifier):
    """NRB, the Polish account number without its country (zarządzenie Prezesa NBP 7/2017): 26
    digits, of which the first two check the others as in an IBAN (ISO 7064, MOD 97-10)."""

    entity = "BANK_ACCOUNT"
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"\d\d(?:[ -]?\d{4}){6}"),
        labelled(
            r"numer rach\w{0,6}|nr rach|nr konta|rachun|nrb|kont[oau]", r"\d\d(?:[ -]?\d{4}){6}"
        ),
    )

    def check(self, value: str) -> bool | None:
        return bool(iban.is_valid("PL" + re.sub(r"\D", "", value)))


class MexicanClabe(Identifier):
    """CLABE (Banco de México, circular 3/2012; ABM): bank, place, account, and a check digit of the
    weights 3, 7, 1, which one number of eighteen digits in ten has."""

    entity = "BANK_ACCOUNT"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(
            r"clabe|cuenta interbancaria|clave interbancaria|transferencia interbancaria|spei",
            r"\d{3}[ -]?\d{3}[ -]?\d{11}[ -]?\d|\d{4}(?:[ -]\d{4}){3}[ -]\d\d",
        ),
    )

    def check(self, value: str) -> bool | None:
        digits = [int(sign) for sign in value if sign.isdecimal()]
        weighed = sum(digit * (3, 7, 1)[at % 3] % 10 for at, digit in enumerate(digits[:17]))
        return -weighed % 10 == digits[17]


class RoutedAccount(Identifier):
    """An account behind the routing number of its bank (ABA; Federal Reserve districts, check digit
    of the weights 3, 7, 1), which names no customer by itself."""

    entity = "US_BANK_NUMBER"
    scheme = rtn
    forms: ClassVar[tuple[Pattern, ...]] = (
        Pattern(
            f"{LABELLED}, with an account",
            r"(?<![^\W_])(?:routing|aba|rtn)(?:[ _](?:transit|routing|no|nr|number|#))*[\W_]{1,5}"
            r"(?:is[\W_]{1,3})?(?P<value>\d{9})[\W_]{1,6}(?:[^\W\d_]{1,10}[\W_]{1,4}){0,3}?"
            r"(?:acc(?:oun)?t|a/c|checking|savings)[^\n\d]{1,24}(?P<more>\d{4,17})(?!\w)",
            0.5,
        ),
    )
