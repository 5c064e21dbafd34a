"""Given names that the lexicon has beside those of Faker and the census: `given_names.txt`.

Faker's locale of a language holds a few hundred names, and 62 of 174 common Polish ones were in
none, so the tagger had only their letters to go by. To add the file's names to a lexicon that is
built, in `models/names`:

    PYTHONPATH=. python -m training.given ../../gateway/classify/names/weights/lexicon.npz
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from gateway.classify.names.model.lexicon import LexiconEntry, word_hash

NAMES: Final = Path(__file__).with_name("given_names.txt")
KNOWN_AS_GIVEN: Final = 2
"""How widely each of them is known, at least: as by two of Faker's locales."""


def names(path: Path = NAMES) -> Iterator[str]:
    """In lower case, as the lexicon has words."""
    for line in path.read_text("utf-8").splitlines():
        if not line.startswith(("#", "[")):
            yield from line.lower().split()


def save(path: Path, facts: Mapping[int, int]) -> None:
    """Facts of words by their hashes, in the form that `Lexicon.load` reads."""
    hashes = np.array(sorted(facts), dtype=np.uint32)
    np.savez_compressed(
        path,
        steps=np.diff(hashes, prepend=np.uint32(0)),
        facts=np.array([facts[int(h)] for h in hashes], dtype=np.uint16),
    )


def add(path: Path) -> int:
    """Adds the names to the lexicon there, and says how many it did not know so well. Names that it
    has already change nothing."""
    with np.load(path) as found:
        hashes = np.cumsum(found["steps"], dtype=np.uint32)
        facts = dict(zip(map(int, hashes), map(int, found["facts"]), strict=True))
    added = 0
    for name in names():
        known = LexiconEntry.unpack(facts.get(word_hash(name), 0))
        if known.given < KNOWN_AS_GIVEN:
            facts[word_hash(name)] = replace(known, given=KNOWN_AS_GIVEN).packed()
            added += 1
    if added:
        save(path, facts)
    return added


if __name__ == "__main__":
    print(f"{add(Path(sys.argv[1]))} names added")
