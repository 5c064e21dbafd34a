# ruff: noqa: SIM905 - lists of words read better as text
"""Builds languages.npz: the most frequent words of languages in Latin script, as hashes; and
foreign.npz: words of three languages that the model was not measured on and takes for names."""

from __future__ import annotations

import importlib
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from wordfreq import available_languages, top_n_list

from gateway.classify.names.model.lexicon import Lexicon, word_hash

_WORDS = 200
_FOREIGN = {"tr": 12_000, "id": 6_000, "vi": 3_000}
"""How many of the most frequent words of each: what is rarer is too often somebody's."""
_LOCALES = ("tr_TR", "id_ID", "vi_VN")
LATIN = "en de fr es it pt nl pl ca cs da fi fil hu id is lt lv ms nb ro sh sk sl sv tr vi".split()


def build(path: Path) -> list[str]:
    names = [lang for lang in LATIN if lang in available_languages()]
    masks: dict[int, int] = defaultdict(int)
    for at, language in enumerate(names):
        for word in top_n_list(language, _WORDS):
            if word.isalpha() and len(word) > 1:
                masks[word_hash(word)] |= 1 << at
    hashes = sorted(masks)
    np.savez_compressed(
        path,
        hashes=np.array(hashes, dtype=np.uint32),
        masks=np.array([masks[h] for h in hashes], dtype=np.uint64),
        names=np.array(names),
    )
    return names


def build_foreign(path: Path, lexicon: Lexicon) -> int:
    """Without whatever is somebody's name: to the lexicon, which has the frequent words of the
    measured languages too, and to Faker."""
    names = {word for locale in _LOCALES for word in _names(locale)}
    hashes = {
        word_hash(word)
        for language, most in _FOREIGN.items()
        for word in top_n_list(language, most)
        if len(word) > 1 and word.isalpha() and word not in names and not _is_known(lexicon, word)
    }
    ordered = np.array(sorted(hashes), dtype=np.uint32)
    np.savez_compressed(path, steps=np.diff(ordered, prepend=np.uint32(0)))
    return len(hashes)


def _is_known(lexicon: Lexicon, word: str) -> bool:
    known = lexicon.find(word)
    return bool(known.given or known.surname or known.place or known.frequency)


def _names(locale: str) -> Iterator[str]:
    """All that Faker makes names of, word by word, in lower case."""
    provider = importlib.import_module(f"faker.providers.person.{locale}").Provider
    for attribute in dir(provider):
        values = getattr(provider, attribute)
        if "name" in attribute and isinstance(values, (tuple, list, dict)):
            for value in values:
                yield from re.findall(r"[^\W\d_]+", value.lower())
