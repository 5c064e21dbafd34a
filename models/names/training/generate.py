# ruff: noqa: SIM905 - lists of words read better as text
"""Examples from templates: slots filled, then written the many ways in which people write."""

from __future__ import annotations

import random
import re
import string
import unicodedata
from collections.abc import Callable, Iterator, Sequence

from training.places import CITIES, REGIONS, STREET_FORMS, STREETS
from training.pools import Pool, Pools
from training.sets import Sample
from training.templates import Part

Mention = tuple[str, str]  # text, kind ("" is no mention)
NAMES = frozenset(
    {"person", "given", "surname", "person_rev", "titled", "initials", "surname_caps"}
)
TITLES = {
    "en": ("Dr.", "Mr.", "Mrs.", "Ms.", "Prof.", "Dr", "Mr", "Mrs", "Sir", "Captain", "Judge"),
    "de": ("Herr", "Frau", "Dr.", "Prof. Dr.", "Herrn", "Fr.", "Hr.", "Dr. med."),
    "fr": ("M.", "Mme", "Mlle", "Dr", "Me", "Madame", "Monsieur", "Pr"),
    "es": ("Sr.", "Sra.", "D.", "Dña.", "Dr.", "Dra.", "Don", "Doña", "el señor", "la señora"),
    "it": ("Sig.", "Sig.ra", "Dott.", "Dott.ssa", "Prof.", "Avv.", "Ing.", "il signor"),
    "pt": ("Sr.", "Sra.", "Dr.", "Dra.", "D.", "Prof.", "o senhor", "a senhora", "Eng."),
    "nl": ("dhr.", "mevr.", "Dr.", "mw.", "Meneer", "Mevrouw", "drs.", "prof. dr."),
    "pl": ("Pan", "Pani", "dr", "p.", "prof.", "lek.", "mgr", "mec.", "inż."),
}
_PRODUCTS = (
    "iPhone 15,Galaxy S24,ThinkPad X1,PlayStation 5,Windows 11,Photoshop,Excel,ChatGPT,Corolla,"
    "Golf GTI,Model 3,Kindle,Nespresso,Lego Technic,Air Max,Barbie,Nutella,Aspirin,Ibuprofen,"
    "Metformin,Ozempic,Roomba,Switch,AirPods,Fiesta,Clio,Panda,Duolingo,Netflix,Spotify,Minecraft"
).split(",")
_ORGS = (
    "Siemens,Google,Microsoft,Amazon,Deutsche Bank,BBC,NATO,UNICEF,Red Cross,Airbus,Vodafone,IKEA,"
    "Nestlé,Toyota,Samsung,Santander,Orange,Telefónica,Fiat,Petrobras,Philips,ING,Orlen,Allegro,"
    "Ministry of Health,European Commission,World Bank,United Nations,FC Barcelona,Real Madrid,"
    "Manchester United,Harvard,MIT,NASA,FBI,NHS,Reuters,The Guardian,Le Monde,Apple,Tesla,Boeing"
).split(",")
_NATIONS = (
    "German French Spanish Italian Polish Dutch British American Chinese Indian Turkish Brazilian"
).split()
_CASUAL = ("tweets", "btc", "wnut17")  # sources where people seldom reach for a capital
_WORDS = (
    "sky moon cat dragon pixel ninja night star wolf cool real happy crazy lucky red blue music "
    "fan game dev data coffee the queen king sweet dark sun"
).split()


class Generator:
    def __init__(self, pools: Pools, rng: random.Random, inflect: Callable[..., tuple[str, str]]):
        self._pools = pools
        self._rng = rng
        self._inflect = inflect

    def fill(self, template: Sequence[Part], lang: str, source: str) -> Sample:
        text = ""
        spans: list[tuple[int, int, str]] = []
        after_name = False
        pool = self._pools.by_language[lang]
        for part in template:
            for said, kind in self._said(part, lang, pool):
                if kind:
                    start = len(text)
                    joined = (
                        after_name and part.slot in NAMES and spans and text[spans[-1][1] :] == " "
                    )
                    if joined:
                        start = spans.pop()[0]
                    elif part.slot == "handle" and text.endswith(("@", "#")):
                        start -= 1  # annotated sets count the sign as part of it
                    spans.append((start, len(text) + len(said), kind))
                text += said
            if part.slot:
                after_name = part.slot in NAMES
            elif part.text != " ":
                after_name = False
        return Sample(text, tuple(spans), lang, source)

    def _said(self, part: Part, lang: str, pool: Pool) -> Iterator[Mention]:
        if not part.slot:
            yield part.text, part.kind
        elif part.slot in NAMES:
            yield from self._name(part, lang, pool)
        else:
            yield self._value(part.slot, lang, pool)

    # names

    def _who(self, lang: str, pool: Pool) -> tuple[str, str, bool]:
        """Given name, surname, and whether they are of the text's own language."""
        rng = self._rng
        at = rng.random()
        if at < 0.62:
            given, surname, _ = rng.choice(pool.persons)
            return given, surname, True
        if at < 0.85:
            given, surname, _ = rng.choice(self._pools.elsewhere.persons)
            return given, surname, False
        if at < 0.90:
            other = self._pools.by_language[rng.choice(list(self._pools.by_language))]
            given, surname, _ = rng.choice(other.persons)
            return given, surname, False
        return self._pools.given.draw(rng), self._pools.surname.draw(rng), False

    def _name(self, part: Part, lang: str, pool: Pool) -> Iterator[Mention]:
        rng = self._rng
        given, surname, own = self._who(lang, pool)
        if lang == "es" and own and rng.random() < 0.45:
            surname += " " + rng.choice(pool.persons)[1]
        if lang == "pt" and own and rng.random() < 0.3:
            surname += " " + rng.choice(pool.persons)[1]
        if rng.random() < 0.06:
            surname += "-" + rng.choice(pool.persons)[1].split()[-1]
        if part.case and lang == "pl":
            given, surname = self._inflect(given, surname, part.case)
        slot = part.slot
        if slot == "given":
            yield given, "PERSON"
        elif slot == "surname":
            yield surname, "PERSON"
        elif slot == "surname_caps":
            yield surname.upper(), "PERSON"
        elif slot == "person_rev":
            yield f"{surname}, {given}", "PERSON"
        elif slot == "initials":
            dots = ". " if rng.random() < 0.7 else "."
            extra = rng.choice(string.ascii_uppercase) + dots if rng.random() < 0.25 else ""
            yield f"{given[0]}{dots}{extra}{surname}", "PERSON"
        elif slot == "titled":
            yield rng.choice(TITLES[lang]) + " ", ""
            yield (f"{given} {surname}" if rng.random() < 0.4 else surname), "PERSON"
        else:
            at = rng.random()
            if at < 0.08:
                given += " " + rng.choice(pool.persons)[0]
            elif at < 0.14:
                given += f" {rng.choice(string.ascii_uppercase)}."
            yield f"{given} {surname}", "PERSON"

    def _handle(self, lang: str, pool: Pool) -> Mention:
        rng = self._rng
        if rng.random() < 0.6:
            given, surname, _ = self._who(lang, pool)
            given, surname = given.replace(" ", ""), surname.replace(" ", "")
            form = rng.choice(
                (given + surname, given.lower() + surname.lower(), f"{given}_{surname}".lower(),
                 given[0].lower() + surname.lower(), given.lower() + str(rng.randrange(100)),
                 f"{given}{surname[0]}", surname.lower() + given.lower())
            )  # fmt: skip
            return form, "PERSON" if len(surname) > 2 else ""
        made = "".join(rng.sample(_WORDS, 2)) + rng.choice(("", "_", str(rng.randrange(1000))))
        return made, ""

    # everything else

    def _value(self, slot: str, lang: str, pool: Pool) -> Mention:
        rng = self._rng
        match slot:
            case "handle":
                return self._handle(lang, pool)
            case "street":
                return self._street(lang, pool), "STREET_ADDRESS"
            case "address":
                lines = self._address(lang, pool)
                return lines.replace("\n", rng.choice((", ", ", ", " "))), "STREET_ADDRESS"
            case "address_lines":
                return self._address(lang, pool), "STREET_ADDRESS"
            case "city":
                real = rng.random() < 0.7
                return rng.choice(CITIES[lang] if real else pool.cities), "LOCATION"
            case "country":
                return rng.choice(pool.countries), "LOCATION"
            case "region":
                return rng.choice(REGIONS[lang]), "LOCATION"
            case "org":
                return self._org(pool, lang), "ORGANIZATION"
            case _:
                return self._plain(slot, lang), ""

    def _org(self, pool: Pool, lang: str) -> str:
        rng = self._rng
        at = rng.random()
        if at < 0.5:
            return rng.choice(pool.orgs)
        if at < 0.75:
            return rng.choice(_ORGS)
        city = rng.choice(CITIES[lang])
        return rng.choice(
            (f"{city} General Hospital", f"University of {city}", f"{city} FC", f"Klinikum {city}",
             f"CHU {city}", f"Hospital de {city}", f"Banca di {city}", f"{city} City Council")
        )  # fmt: skip

    def _street(self, lang: str, pool: Pool) -> str:
        rng = self._rng
        if rng.random() < 0.5:
            return rng.choice(pool.streets)
        form = rng.choice(STREET_FORMS[lang])
        name = rng.choice(STREETS[lang])
        if rng.random() < 0.25:
            name = rng.choice(pool.persons)[1]
        return form.format(name=name, n=rng.choice((rng.randrange(1, 99), rng.randrange(1, 2000))),
                           k=rng.randrange(1, 60), l=rng.choice("abcABC"))  # fmt: skip

    def _address(self, lang: str, pool: Pool) -> str:
        rng = self._rng
        if rng.random() < 0.55:
            return rng.choice(pool.addresses)
        city = rng.choice(CITIES[lang])
        street = self._street(lang, pool)
        code = self._postcode(lang)
        if lang == "en":
            return rng.choice((f"{street}\n{city}, {code}", f"{street}\n{city} {code}",
                               f"{street}\n{city}"))  # fmt: skip
        whole = f"{street}\n{code} {city}"
        return rng.choice((whole, whole, f"{street}\n{city}"))

    def _postcode(self, lang: str) -> str:
        rng = self._rng
        five = f"{rng.randrange(1000, 99999):05d}"
        match lang:
            case "en":
                letters = string.ascii_uppercase
                pair, last = rng.sample(letters, 2), rng.sample(letters, 2)
                uk = f"{''.join(pair)}{rng.randrange(1, 20)} {rng.randrange(1, 9)}{''.join(last)}"
                state = rng.choice("CA NY TX FL IL WA MA PA OH GA NC VA CO AZ".split())
                return rng.choice((f"{state} {five}", uk, five))
            case "pl":
                return f"{five[:2]}-{five[2:]}"
            case "nl":
                return f"{rng.randrange(1000, 9999)} {rng.choice('ABCDEH')}{rng.choice('KLMNPX')}"
            case "pt":
                return f"{rng.randrange(1000, 9999)}-{rng.randrange(100, 999)}"
            case _:
                return five

    def _plain(self, slot: str, lang: str) -> str:
        rng = self._rng
        day, month, year = rng.randrange(1, 29), rng.randrange(1, 13), rng.randrange(1930, 2027)
        match slot:
            case "date":
                return rng.choice((f"{day:02d}/{month:02d}/{year}", f"{year}-{month:02d}-{day:02d}",
                                   f"{day:02d}.{month:02d}.{year}", f"{day}.{month}."))  # fmt: skip
            case "time":
                return f"{rng.randrange(24):02d}:{rng.randrange(60):02d}"
            case "age":
                return str(rng.randrange(1, 99))
            case "phone":
                return rng.choice(("+", "0", "(0", "")) + "".join(
                    rng.choice("0123456789") + rng.choice(("", "", "", " ", "-")) for _ in range(10)
                ).strip(" -")
            case "email":
                user = "".join(rng.choice(string.ascii_lowercase) for _ in range(7))
                host = rng.choice(_WORDS) + rng.choice(_WORDS)
                return f"{user}@{host}.{rng.choice(('com', 'de', 'org', 'fr', 'pl'))}"
            case "number":
                return str(rng.randrange(1, 10 ** rng.randrange(1, 7)))
            case "id":
                letters = "".join(rng.sample(string.ascii_uppercase, 2))
                return f"{letters}-{rng.randrange(100, 999999)}"
            case "money":
                return f"{rng.choice('€$£')}{rng.randrange(1, 99999)}"
            case "url":
                host, page = rng.choice(_WORDS) + rng.choice(_WORDS), rng.choice(_WORDS)
                return f"https://www.{host}.com/{page}"
            case "iban":
                return "DE" + "".join(rng.choice("0123456789") for _ in range(20))
            case "card":
                return " ".join(f"{rng.randrange(1000, 9999)}" for _ in range(4))
            case "product":
                return rng.choice(_PRODUCTS)
            case _:
                return rng.choice(_NATIONS)


# The many ways in which the same is written


def lowered(sample: Sample) -> Sample:
    text = sample.text.lower()
    return sample if len(text) != len(sample.text) else _with_text(sample, text)


def raised(sample: Sample) -> Sample:
    text = sample.text.upper()
    return sample if len(text) != len(sample.text) else _with_text(sample, text)


def unaccented(sample: Sample) -> Sample:
    made = []
    for c in sample.text:
        base = unicodedata.normalize("NFKD", c)[0]
        made.append(base if unicodedata.combining(base) == 0 else c)
    return _with_text(sample, "".join(made))


def without_end(sample: Sample) -> Sample:
    return _with_text(sample, re.sub(r"[.!?]$", " ", sample.text))


def joined(samples: Sequence[Sample], between: str) -> Sample:
    text, spans = "", []
    for sample in samples:
        if text:
            text += between
        spans += [(s + len(text), e + len(text), k) for s, e, k in sample.spans]
        text += sample.text
    return Sample(text, tuple(spans), samples[0].lang, samples[0].source)


def _with_text(sample: Sample, text: str) -> Sample:
    return Sample(text, sample.spans, sample.lang, sample.source)


def varied(sample: Sample, rng: random.Random) -> Sample:
    at = rng.random()
    if at < 0.07 or (sample.source in _CASUAL and at > 0.8):
        return lowered(sample)
    if at < 0.10:
        return raised(sample)
    if at < 0.14:
        return unaccented(sample)
    if at < 0.18:
        return without_end(sample)
    return sample
