"""What the names model loses by reading windows: `python -m loadtests.classify.gate [--data DIR]`.

For each language texts are made from the templates that trained the model, with names that are
drawn anew or invented; with `--data`, the texts of the JSONL files there too (as
`loadtests.classify.accuracy` has them). Each is read whole and as the gate has it, where full names
alone restrict: how many restrict either way, what the gate loses, how much of the text it leaves to
the model, and in how many texts it leaves anything.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.classify.names import FULL_NAME, PERSON, Enough
from gateway.classify.names.engines.reader import NamesReader, UnmeasuredLanguage
from gateway.classify.names.model.words import cut
from gateway.core.types import Finding

MODELS = Path(__file__).resolve().parents[2] / "models/names"
SURNAMES = {
    "en": "Smith Whitfield Okonkwo Brown Harrington Lee Patel O'Neill McAllister Green Ashworth",
    "de": "Müller Lindner Weidenfeller Schäfer Klein Groß von Arnim Hübner Yildiz Kowalczyk Vogel",
    "fr": "Rousseau Lefèvre Petit Dubois de La Tour Benali Moreau Girard N'Diaye Lacroix Perrin",
    "es": "Delgado García Núñez Iglesias de la Fuente Ruiz Echeverría Mesa Soto Villanueva Peña",
    "it": "Colombo Rossi Bianchi D'Angelo De Luca Esposito Ferrara Conti Zanella Fontana Caruso",
    "pt": "Carvalho Silva dos Santos Oliveira Guimarães Pinto Figueiredo Rocha da Costa Teixeira",
    "nl": "de Vries van der Berg Jansen Bakker Hoekstra Visser ten Pas Dijkstra Willems Kuipers",
    "pl": "Nowak Kowalska Wiśniewski Dąbrowska Zieliński Mazur Szczepańska Wójcik Król Lewandowska",
}
"""Particles stand before the surname that they belong to."""
TITLES = {
    "en": "Mr. Mrs. Ms Dr. Prof.", "de": "Herr Frau Dr. Prof.", "fr": "M. Mme Dr Madame",
    "es": "Sr. Sra. Dña. Dr.", "it": "Sig. Dott. Prof. signora", "pt": "Sr. Dra. senhor Prof.",
    "nl": "dhr. mevrouw Dr. meneer", "pl": "Pan Pani dr prof.",
}  # fmt: skip
STREETS = {
    "en": ("{n} {s} Street", "{n} {s} Rd", "Flat 3, {n} {s} Avenue"),
    "de": ("{s}straße {n}", "Am {s} {n}", "{s}weg {n}a"),
    "fr": ("{n} rue {s}", "{n}, avenue {s}", "{n} bis boulevard {s}"),
    "es": ("calle {s} {n}", "Avda. {s}, {n}", "C/ {s} {n}, 2º"),
    "it": ("Via {s} {n}", "Piazza {s}, {n}", "Corso {s} {n}"),
    "pt": ("Rua {s}, {n}", "Av. {s} {n}", "Travessa {s}, {n}"),
    "nl": ("{s}straat {n}", "{s}laan {n}", "{s}weg {n}-b"),
    "pl": ("ul. {s} {n}/4", "al. {s} {n}", "ulica {s} {n}"),
}
VALUES = {
    "date": "14.03.2025", "time": "14:30", "age": "47", "phone": "0171 555 0134", "number": "312",
    "id": "KX-48213", "money": "€ 250", "url": "https://www.skymoon.com/cat", "org": "Siemens",
    "email": "info@skymoon.com", "product": "iPhone 15", "nationality": "Polish", "card": "4711",
    "iban": "DE00", "city": "Leeds", "country": "Norway", "region": "Kent", "handle": "skyfan7",
}  # fmt: skip
_SLOT = re.compile(r"\{(\w+)(?::\w+)?\}")
_MENTION = re.compile(r"\[([^\[\]\n]+)\]\([A-Z_]+\)")
_NAMED = re.compile(r"\{(?:person|person_rev|titled|initials|surname_caps|street|address)\b")
_PARTICLE = re.compile(r"(?:van der|de la|de La|von|van|ten|dos|da|de|De) \S+|\S+")
LOWERED, RAISED = 0.07, 0.1  # of the texts: as in models/names/training/generate.py
_BATCH = 32


class Made:
    """Texts with names and addresses in one language."""

    def __init__(self, language: str, rng: random.Random) -> None:
        self._language, self._rng = language, rng
        self._given = given_names()
        self._own = self._given.get(language) or self._given["de"]
        self._surnames = _PARTICLE.findall(SURNAMES[language])
        lines = (MODELS / f"text/{language}.txt").read_text("utf-8").splitlines()
        self._templates = [line for line in lines if _NAMED.search(line) and line[0] != "#"]

    def text(self) -> str:
        template = _MENTION.sub(r"\1", self._rng.choice(self._templates))
        text = _SLOT.sub(lambda m: self._value(m[1]), template.replace("\\n", "\n"))
        at = self._rng.random()
        return text.lower() if at < LOWERED else text.upper() if at < RAISED else text

    def _value(self, slot: str) -> str:
        rng, given, surname = self._rng, self._name(), self._surname()
        match slot:
            case "person":
                return f"{given} {surname}"
            case "person_rev":
                return f"{surname}, {given}"
            case "titled":
                return f"{rng.choice(TITLES[self._language].split())} {surname}"
            case "initials":
                return f"{given[0]}. {surname}"
            case "surname_caps":
                return surname.upper()
            case "given":
                return given
            case "surname":
                return surname
            case "street" | "address" | "address_lines":
                form = rng.choice(STREETS[self._language])
                return form.format(s=surname.split()[-1], n=rng.randrange(1, 200))
            case _:
                return VALUES.get(slot, "value")

    def _name(self) -> str:
        """Of the language, of another one, or of nobody."""
        rng, at = self._rng, self._rng.random()
        if at < 0.6:
            return rng.choice(self._own)
        if at < 0.8:
            return rng.choice(rng.choice(list(self._given.values())))
        return self._invented()

    def _surname(self) -> str:
        return self._rng.choice(self._surnames) if self._rng.random() < 0.7 else self._invented()

    def _invented(self) -> str:
        first, second = self._rng.choice(self._own), self._rng.choice(self._own)
        return (first[: 1 + len(first) // 2] + second[len(second) // 2 :]).capitalize()


def given_names() -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    language = ""
    for line in (MODELS / "training/given_names.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            language = line.strip("[]")
        elif line and line[0] != "#":
            names.setdefault(language, []).extend(line.split())
    return names


@dataclass(slots=True)
class Loss:
    texts: int = 0
    restrict: int = 0  # read whole
    lost: int = 0
    gained: int = 0
    words: int = 0
    read: int = 0
    asked: int = 0  # texts that the model reads anything of

    def line(self, name: str) -> str:
        return (
            f"{name:28} {self.texts:6} {self.restrict:9} {self.lost:5}"
            f" {self.lost / max(1, self.restrict):7.2%} {self.gained:6}"
            f" {self.read / max(1, self.words):7.1%} {self.asked / max(1, self.texts):7.1%}"
        )


def restricts(reading: list[Finding] | UnmeasuredLanguage) -> bool:
    """In `balanced`."""
    if isinstance(reading, UnmeasuredLanguage):
        return True
    return any(f.type in (PERSON, "STREET_ADDRESS") and f.score >= FULL_NAME for f in reading)


def enough() -> Enough:
    """Of one call, which ends at its first finding that restricts."""
    return lambda text, finding: restricts([finding])


def loss(reader: NamesReader, texts: Sequence[str], missed: list[str]) -> Loss:
    result = Loss()
    for at in range(0, len(texts), _BATCH):
        some = texts[at : at + _BATCH]
        gated = [reader.filter([text], [False], enough())[0] for text in some]
        whole = reader.read(some)
        windowed = reader.read_windows(gated)
        for text, one, before, now in zip(some, gated, whole, windowed, strict=True):
            result.texts += 1
            result.words += len(cut(text))
            result.read += sum(len(cut(text, *window)) for window in one.windows)
            result.asked += bool(one.windows)
            result.restrict += restricts(before)
            result.gained += restricts(now) and not restricts(before)
            if restricts(before) and not restricts(now):
                result.lost += 1
                missed.append(text)
    return result


def sets(folder: Path) -> Iterator[tuple[str, list[str]]]:
    for path in sorted(folder.glob("*.jsonl")):
        texts: dict[str, list[str]] = {}
        for line in path.read_text("utf-8").splitlines():
            record = json.loads(line)
            if record.get("binary") != "base64":
                kind = "clean" if record.get("benign_class") == "none" else record.get("lang", "")
                texts.setdefault(f"{path.name.split('.')[0]}, {kind}", []).append(record["text"])
        yield from texts.items()


def generated(texts: int, seed: int) -> Iterator[tuple[str, list[str]]]:
    for language in SURNAMES:
        made = Made(language, random.Random(seed))
        yield f"generated, {language}", [made.text() for _ in range(texts)]


def table(
    reader: NamesReader, sources: Iterable[tuple[str, list[str]]], show: int
) -> Iterator[str]:
    head = ("texts", "", "restrict", "lost", "", "gained", "read", "asked")
    yield "{:28} {:>6} {:>9} {:>5} {:>7} {:>6} {:>7} {:>7}".format(*head)
    for name, texts in sources:
        missed: list[str] = []
        yield loss(reader, texts, missed).line(name)
        yield from (f"    {text[:300]!r}" for text in missed[:show])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--texts", type=int, default=400, help="that are made for each language")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, help="folder of *.jsonl")
    parser.add_argument("--show", type=int, default=0, help="so many of the texts that are lost")
    args = parser.parse_args()
    reader = NamesReader.load()
    sources = [*generated(args.texts, args.seed), *(sets(args.data) if args.data else ())]
    for line in table(reader, sources, args.show):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
