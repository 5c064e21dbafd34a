# ruff: noqa: SIM905 - lists of words read better as text
"""Builds languages.npz: the most frequent words of languages in Latin script, as hashes."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
from wordfreq import available_languages, top_n_list

from gateway.classify.names.model.lexicon import word_hash

_WORDS = 200
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
