"""Identifiers of people who do not exist, and texts that look like some and identify nobody.

Check digits are computed as the issuing bodies say: ISO/IEC 7812-1 (cards), ISO 13616 (IBAN), and
for the national numbers the rules that python-stdnum cites for each.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stdnum import luhn, verhoeff
from stdnum.iso7064 import mod_97_10

FIRST = (
    "Aurelia", "Benedikt", "Clémence", "Donatella", "Eberhard", "Florentina", "Gonçalo", "Hendrika",
    "Ignacio", "Jarosław", "Katharina", "Leopold", "Małgorzata", "Nathaniel", "Odette", "Philippa",
    "Rosalind", "Sebastián", "Theodora", "Ulrike", "Valentina", "Wouter", "Ximena", "Zbigniew",
)  # fmt: skip
LAST = (
    "Achterberg", "Bustamante", "Czarnecki", "Delacroix", "Eichhorn", "Featherstone", "Guimarães",
    "Hartmann", "Iglesias", "Jaworski", "Kirchner", "Lombardi", "Mendonça", "Nakonieczny",
    "Oosterhuis", "Pellegrini", "Quiroga", "Rademacher", "Szymański", "Thibault", "Underhill",
    "Vasconcelos", "Wesołowski", "Zimmermann",
)  # fmt: skip


def _digits(dice: random.Random, count: int) -> str:
    return "".join(dice.choice(string.digits) for _ in range(count))


def _weighted(body: str, weights: tuple[int, ...], modulus: int) -> int:
    return sum(int(d) * w for d, w in zip(body, weights, strict=True)) % modulus


def card(dice: random.Random) -> str:
    """Of the ranges of five schemes, grouped as they are printed or not at all."""
    prefix, length = dice.choice(
        (("4", 16), (f"5{dice.randint(1, 5)}", 16), ("2345", 16), ("37", 15), ("3530", 16))
    )
    body = prefix + _digits(dice, length - 1 - len(prefix))
    number = body + luhn.calc_check_digit(body)
    if length == 16 and dice.random() < 0.6:
        return dice.choice(" -").join(number[at : at + 4] for at in range(0, 16, 4))
    return number


def iban(dice: random.Random) -> str:
    country, length = dice.choice((("DE", 18), ("NL", 0), ("AT", 16), ("ES", 0), ("PL", 24)))
    if country == "NL":
        account = _digits(dice, 9)
        rest = -_weighted(account, (10, 9, 8, 7, 6, 5, 4, 3, 2), 11) % 11
        bban = "INGB" + (account + str(rest) if rest < 10 else "0417164300")
    elif country == "ES":
        bank, account = _digits(dice, 8), _digits(dice, 10)
        weights = (1, 2, 4, 8, 5, 10, 9, 7, 3, 6)

        def check(body: str) -> str:
            rest = 11 - _weighted(body, weights, 11)
            return str({11: 0, 10: 1}.get(rest, rest))

        bban = bank + check("00" + bank) + check(account) + account
    else:
        bban = _digits(dice, length)
        if country == "PL":
            weights8 = (3, 9, 7, 1, 3, 9, 7)
            bban = bban[:7] + str(-_weighted(bban[:7], weights8, 10) % 10) + bban[8:]
    number = country + mod_97_10.calc_check_digits(bban + country) + bban
    if dice.random() < 0.5:
        return " ".join(number[at : at + 4] for at in range(0, len(number), 4))
    return number


def social_security(dice: random.Random) -> str:
    return f"{dice.randint(101, 665):03}-{dice.randint(11, 99):02}-{dice.randint(1001, 9899):04}"


def email(dice: random.Random) -> str:
    host = dice.choice(("example.org", "mail.example.com", "klinik.example.net"))
    first = dice.choice(("aurelia", "benedikt", "ignacio", "odette", "wouter"))
    return f"{first}{dice.choice('._-')}{_digits(dice, 3)}@{host}"


def telephone(dice: random.Random) -> str:
    return dice.choice(
        (
            f"+49 30 {dice.randint(2000000, 8999999)}",
            f"+44 20 7946 0{dice.randint(100, 999)}",
            f"+33 6 {' '.join(_digits(dice, 2) for _ in range(4))}",
            f"+1 (212) {dice.randint(220, 989)}-{_digits(dice, 4)}",
            f"+48 22 {dice.randint(200, 899)} {_digits(dice, 2)} {_digits(dice, 2)}",
        )
    )


def pesel(dice: random.Random) -> str:
    year, month, day = dice.randint(40, 99), dice.randint(1, 12), dice.randint(1, 28)
    body = f"{year:02}{month:02}{day:02}{_digits(dice, 4)}"
    return body + str(-_weighted(body, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3), 10) % 10)


def nhs(dice: random.Random) -> str:
    while True:
        body = str(dice.randint(400_000_000, 499_999_999))
        rest = 11 - _weighted(body, (10, 9, 8, 7, 6, 5, 4, 3, 2), 11)
        if rest != 10:
            return f"NHS number {body[:3]} {body[3:6]} {body[6:]}{rest % 11}"


def nif(dice: random.Random) -> str:
    number = dice.randint(10_000_000, 99_999_999)
    return f"{number}{'TRWAGMYFPDXBNJZSQVHLCKE'[number % 23]}"


def aadhaar(dice: random.Random) -> str:
    body = dice.choice("23456789") + _digits(dice, 10)
    number = body + verhoeff.calc_check_digit(body)
    return f"Aadhaar {number[:4]} {number[4:8]} {number[8:]}"


def cpf(dice: random.Random) -> str:
    body = _digits(dice, 9)
    for first in (10, 11):
        rest = sum(int(d) * (first - at) for at, d in enumerate(body)) % 11
        body += str(0 if rest < 2 else 11 - rest)
    return f"{body[:3]}.{body[3:6]}.{body[6:9]}-{body[9:]}"


def secret(dice: random.Random) -> str:
    letters = string.ascii_letters + string.digits
    return dice.choice(
        (
            "AKIA" + "".join(dice.choices(string.ascii_uppercase + "234567", k=16)),
            "ghp_" + "".join(dice.choices(letters, k=36)),
            "xoxb-" + _digits(dice, 12) + "-" + "".join(dice.choices(letters, k=24)),
        )
    )


def full_name(dice: random.Random) -> str:
    return f"{dice.choice(FIRST)} {dice.choice(LAST)}"


def address(dice: random.Random) -> str:
    return dice.choice(
        (
            f"{dice.randint(2, 199)} Wetherby Road, Leeds",
            f"Kastanienallee {dice.randint(2, 99)}, 10435 Berlin",
            f"ul. Kwiatowa {dice.randint(2, 90)}, 00-544 Warszawa",
            f"{dice.randint(2, 90)} rue de la Paix, 75002 Paris",
            f"Calle de Alcalá {dice.randint(2, 90)}, 28014 Madrid",
        )
    )


def passport(dice: random.Random) -> str:
    return f"passport no. {dice.choice('CFGH')}{_digits(dice, 8)}"


def medical_record(dice: random.Random) -> str:
    return f"medical record number MRN {_digits(dice, 8)}"


VALUES: Mapping[str, Callable[[random.Random], str]] = {
    "card": card,
    "iban": iban,
    "social security": social_security,
    "e-mail": email,
    "telephone": telephone,
    "PESEL": pesel,
    "NHS": nhs,
    "NIF": nif,
    "Aadhaar": aadhaar,
    "CPF": cpf,
    "secret": secret,
    "full name": full_name,
    "address": address,
    "passport": passport,
    "medical record": medical_record,
}
WORDED = frozenset({"NHS", "Aadhaar", "passport", "medical record"})
"""Numbers that identify beside their words alone, so a form may not part them."""
PROSE = frozenset({"full name", "address"})
"""Not of digits: forms of digits do not apply."""

_SENTENCES = (
    "Please check {} before the appointment.",
    "The customer gave us {} on the telephone.",
    "Update the file: {} was wrong until now.",
    "Write a polite reminder that mentions {} once.",
    "{} is what the form says. Is it plausible?",
)


@dataclass(frozen=True, slots=True)
class Text:
    """What a call says. `value`: the identifier in it, none in a control."""

    kind: str
    words: str
    value: str = ""


def restricted(dice: random.Random) -> Text:
    kind = dice.choice(tuple(VALUES))
    value = VALUES[kind](dice)
    return Text(kind, dice.choice(_SENTENCES).format(value), value)


_FOREIGN = {
    "Hindi": "कृपया मरीज को कल सुबह बुलाएँ",
    "Bengali": "রোগীকে কাল সকালে ডাকুন",
    "Tamil": "நோயாளியை நாளை அழைக்கவும்",
    "Telugu": "రోగిని రేపు పిలవండి",
    "Thai": "กรุณาโทรหาคนไข้พรุ่งนี้",
    "Chinese": "请 明 天 给 病 人 打 电 话",
    "Japanese": "患 者 に 明 日 電 話 し て",
    "Korean": "환 자 에 게 내 일 전 화",
    "Hebrew": "נָא לְהִתְקַשֵּׁר לַמְּטֻפָּל מָחָר",
    "Arabic": "يرجى الاتصال بالمريض غدا",
    "Georgian": "გთხოვთ დაურეკეთ პაციენტს ხვალ",
    "Amharic": "እባክዎ ለታካሚው ነገ ይደውሉ",
    "Greek": "Παρακαλώ καλέστε τον ασθενή αύριο",
    "Ukrainian": "Зателефонуйте пацієнту завтра",
    "Khmer": "សូមទូរស័ព្ទទៅអ្នកជំងឺនៅថ្ងៃស្អែក",
}


def foreign(dice: random.Random) -> Text:
    """A request in a language that was not measured: nobody can say what is in it."""
    language = dice.choice(tuple(_FOREIGN))
    return Text(f"language {language}", _FOREIGN[language])


_CLEAR = (
    "Explain in two sentences how a heat pump warms a house.",
    "What should a checklist for a night shift in a warehouse contain?",
    "Why does bread rise, and what slows it down?",
    "Release 4.11.2 needs 16 GB of memory and 4 processor cores. Is that a lot?",
    "Order 4711 has 12 items of 250 g. How heavy is the parcel?",
    "List what to look at when a conveyor belt starts to squeak.",
    "The sensor read 21.5, 22.0 and 22.5 degrees between 08:00 and 09:30 on 2024-03-11.",
    "Translate to German: the meeting begins at a quarter past nine.",
    "Write a regular expression for lines that begin with three dashes.",
    "Give three ideas for a poster about saving water.",
)


def clear(dice: random.Random) -> Text:
    return Text("control", dice.choice(_CLEAR))
