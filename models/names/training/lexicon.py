"""Builds the lexicon: word frequencies (wordfreq, CC BY-SA 4.0), names and places (Faker, MIT; the
US census of 1990, public domain, as packaged by `names`; given names of `given.py`)."""

from __future__ import annotations

import importlib.resources
import importlib.util
import math
from collections import defaultdict
from pathlib import Path

from wordfreq import get_frequency_dict

from gateway.classify.names.model.lexicon import LexiconEntry, word_hash
from gateway.classify.names.model.words import cut
from training import given as more
from training.places import CITIES, REGIONS
from training.pools import Pools

LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl")
_RAREST_ZIPF = 3.3  # of the words that count as words of a language
_COMMON_ZIPF = 3.9
_EVERYDAY_ZIPF = 6.0  # somebody is called The, which tells nothing


def _zipf(frequency: float) -> float:
    """log10 of occurrences in a thousand million words (van Heuven et al. 2014)."""
    return math.log10(frequency * 1e9)


def _frequencies() -> tuple[dict[str, float], dict[str, int]]:
    highest: dict[str, float] = defaultdict(float)
    common: dict[str, int] = defaultdict(int)
    for language in LANGUAGES:
        for word, frequency in get_frequency_dict(language).items():
            zipf = _zipf(frequency)
            if zipf < _RAREST_ZIPF or not any(c.isalpha() for c in word):
                continue
            highest[word] = max(highest[word], zipf)
            common[word] += zipf >= _COMMON_ZIPF
    return highest, common


def _census(name: str, most: int | None = None) -> set[str]:
    found = importlib.util.find_spec("names")
    assert found is not None
    assert found.origin is not None
    lines = Path(found.origin).with_name(name).read_text("ascii").splitlines()
    return {line.split()[0].lower() for line in lines[:most]}  # the most frequent first


def _names(pools: Pools) -> tuple[dict[str, int], dict[str, int]]:
    """How many locales know a word as a given name, and as a surname."""
    given: dict[str, set[str]] = defaultdict(set)
    surname: dict[str, set[str]] = defaultdict(set)
    for place, pool in [*pools.by_language.items(), ("elsewhere", pools.elsewhere)]:
        for first, last, _ in pool.persons:
            for word in cut(first).words:
                given[word.lower()].add(place)
            for word in cut(last).words:
                surname[word.lower()].add(place)
    for name in ("dist.female.first", "dist.male.first"):
        for word in _census(name):
            given[word].add("census")
    for word in _census("dist.all.last", most=30_000):
        surname[word].add("census")
    widely = {w: min(3, len(p)) for w, p in given.items() if len(w) > 1}
    widely |= {w: max(widely.get(w, 0), more.KNOWN_AS_GIVEN) for w in more.names()}
    return widely, {w: min(3, len(p)) for w, p in surname.items() if len(w) > 1}


def build(pools: Pools, path: Path) -> int:
    highest, common = _frequencies()
    given, surname = _names(pools)
    places = {
        word.lower()
        for lists in (*CITIES.values(), *REGIONS.values())
        for name in lists
        for word in cut(name).words
        if len(word) > 2
    }
    facts: dict[int, int] = {}
    for word in sorted({*highest, *given, *surname, *places}):
        zipf = highest.get(word, 0.0)
        known = LexiconEntry(
            frequency=0 if not zipf else min(7, 1 + int((zipf - _RAREST_ZIPF) / 0.5)),
            languages=min(8, common.get(word, 0)),
            given=given.get(word, 0),
            surname=surname.get(word, 0) if zipf < _EVERYDAY_ZIPF else 0,
            place=int(word in places),
        )
        facts[word_hash(word)] = max(facts.get(word_hash(word), 0), known.packed())
    more.save(path, facts)
    return len(facts)
