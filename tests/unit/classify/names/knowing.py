"""Models that know what a test tells them, in the place of the trained one: rows in, logits out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from gateway.classify.names.model.features import GAP, Features
from gateway.classify.names.model.labels import BEGIN, LABELS
from gateway.classify.names.model.lexicon import Lexicon
from gateway.classify.names.model.tagger import Tagger
from gateway.classify.names.model.words import cut

Rows = npt.NDArray[np.int32]
Logits = npt.NDArray[np.float32]
SURE = 9.0
HERE = slice(0, GAP)  # what a row says of the word itself
SEEN = 18  # words to either side that the trained model sees


def plain_features() -> Features:
    vocabulary = {"[UNK]": 100, "un": 101, "##able": 102, "able": 103, "unab": 104, "##le": 105}
    return Features(
        vocabulary, Lexicon(np.array([], dtype=np.uint32), np.array([], dtype=np.uint16))
    )


def nothing(rows: Rows) -> Logits:
    logits = np.zeros((*rows.shape[:2], len(LABELS)), dtype=np.float32)
    logits[..., 0] = SURE
    return logits


class Knows:
    """Labels words by what they are: `{"Zara": "PERSON"}`; counts the words that it was given."""

    def __init__(self, known: Mapping[str, str]) -> None:
        features = plain_features()
        self._known = {
            word: (features.rows(cut(word))[0, HERE], kind) for word, kind in known.items()
        }
        self.words = 0
        self.runs: list[tuple[int, ...]] = []

    def __call__(self, rows: Rows) -> Logits:
        self.words += rows.shape[0] * rows.shape[1]
        self.runs.append(rows.shape)
        logits = nothing(rows)
        for row, kind in self._known.values():
            logits[(rows[..., HERE] == row).all(-1), BEGIN[kind]] = 2 * SURE
        return logits


class Surroundings:
    """Takes `name` for a person only where it sees `before` so many words before it, and `after` so
    many behind it: as far as the trained model sees."""

    def __init__(self, before: str, name: str, after: str) -> None:
        features = plain_features()
        self._rows = [features.rows(cut(word))[0, HERE] for word in (before, name, after)]

    def __call__(self, rows: Rows) -> Logits:
        logits = nothing(rows)
        before, name, after = ((rows[..., HERE] == row).all(-1) for row in self._rows)
        both = before[:, : -2 * SEEN] & name[:, SEEN:-SEEN] & after[:, 2 * SEEN :]
        logits[:, SEEN:-SEEN, BEGIN["PERSON"]] = np.where(both, 2 * SURE, 0)
        return logits


def tagger_that_knows(known: Mapping[str, str]) -> Tagger:
    return Tagger(plain_features(), Knows(known))
