"""The second model: what the first doubts is read again, in a stretch of the text round it.

Three layers of a transformer over word pieces know more than the convolutions and cost several
times as much, so they see the few stretches where the first model half sees a name or an address.
There, what counts is the mean of both. What the first says without doubt stays as it is.

A stretch goes through the model alone and without padding, because its 8-bit activations are scaled
by what is in a run: no text shares a scale with another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gateway.classify.names.model.features import COLUMNS, PIECES
from gateway.classify.names.model.labels import BEGIN, INSIDE, LABELS
from gateway.classify.names.model.words import TextWords, handles

STRETCH = 127  # word pieces; with the one that begins it, as many as the model has places for
CONTEXT = 32  # pieces to either side of what is read again, where the text has them
_BEYOND = 8  # words to either side of a doubt that get a verdict with it: a mention has several
_BEGINNING, _UNKNOWN = 101, 100  # pieces: [CLS], [UNK]
_ABOUT_THE_WORD = slice(12, COLUMNS)  # columns of a row that the model sees, beside the pieces
_KINDS = ("PERSON", "STREET_ADDRESS")

Rows = npt.NDArray[np.int32]
Probabilities = npt.NDArray[np.float32]


class SecondModel(Protocol):
    """Rows of one stretch in, logits out: `(words, COLUMNS) int32 -> (words, labels)`."""

    def __call__(self, rows: Rows, /) -> npt.NDArray[np.float32]: ...


@dataclass(frozen=True, slots=True)
class DoubtThresholds:
    """From which probability on the first model doubts, and from which on it is sure: that a word
    belongs to a mention, and that it goes on with a name, which makes it a full one."""

    least: float
    sure: float
    sure_full: float
    share: float
    """How much the second model's word counts where both have one."""

    def about(self, words: TextWords, probabilities: Probabilities) -> npt.NDArray[np.intp]:
        """Indexes of the words that are doubtful. The first model has learned little of handles,
        which are made of anything: each is a doubt."""
        person, address = (probabilities[:, BEGIN[k]] + probabilities[:, INSIDE[k]] for k in _KINDS)
        likely = np.maximum(person, address)
        doubtful = (likely >= self.least) & (likely < self.sure)
        more = probabilities[:, INSIDE["PERSON"]]
        doubtful |= (more >= self.least) & (more < self.sure_full)
        for first, last in handles(words):
            doubtful[first:last] = True
        return np.flatnonzero(doubtful)


@dataclass(frozen=True, slots=True)
class WordStretch:
    """Words `first` to `last` are read; of them, `keep_from` to `keep_to` get their verdict."""

    first: int
    last: int
    keep_from: int
    keep_to: int


class SecondReading:
    def __init__(self, model: SecondModel, doubt: DoubtThresholds) -> None:
        self._model = model
        self._doubt = doubt

    @classmethod
    def load(cls, path: Path, doubt: DoubtThresholds) -> SecondReading:
        return cls(OnnxSecond(path), doubt)

    def doubtful(self, words: TextWords, probabilities: Probabilities) -> list[int]:
        """Indexes of the words that the first model doubts."""
        indexes: list[int] = self._doubt.about(words, probabilities).tolist()
        return indexes

    def settle(
        self,
        words: TextWords,
        probabilities: Probabilities,
        feature_rows: Callable[[TextWords], Rows],
        go_on: Callable[[], None],
    ) -> Probabilities:
        """What both models say of a text, where the first one doubts. Raises ValueError when the
        model's answer is none."""
        doubtful = self._doubt.about(words, probabilities)
        if not len(doubtful):
            return probabilities
        rows = feature_rows(words)
        settled = probabilities.copy()
        for stretch in stretches(doubtful, piece_counts(rows)):
            go_on()
            reading = self.read(rows[stretch.first : stretch.last])
            window = slice(stretch.keep_from, stretch.keep_to)
            again = reading[stretch.keep_from - stretch.first : stretch.keep_to - stretch.first]
            settled[window] = (1 - self._doubt.share) * probabilities[
                window
            ] + self._doubt.share * again
        return settled

    def read(self, rows: Rows) -> Probabilities:
        """What the second model says by itself of one stretch."""
        logits = self._model(rows)
        # NaN is under every threshold: it would look like a text without names.
        if np.shape(logits) != (len(rows), len(LABELS)) or not np.isfinite(logits).all():
            raise ValueError("the second names model's answer does not fit the question")
        shifted = np.exp(logits - logits.max(-1, keepdims=True))
        result: Probabilities = shifted / shifted.sum(-1, keepdims=True)
        return result


def piece_counts(rows: Rows) -> npt.NDArray[np.intp]:
    """How many pieces each word has; one that the vocabulary has none for counts as one."""
    counts: npt.NDArray[np.intp] = np.count_nonzero(rows[:, :PIECES], axis=1)
    return np.maximum(counts, 1)


def stretches(
    doubtful: npt.NDArray[np.intp], pieces: npt.NDArray[np.intp]
) -> Iterator[WordStretch]:
    """Round each doubtful word that none before it has settled, and those behind it that there is
    room for. A word has four pieces at most, so each settles some fifteen words and more."""
    ends = np.cumsum(pieces)
    starts = ends - pieces
    total = len(pieces)
    settled_to = 0
    for at in map(int, doubtful):
        if at < settled_to:
            continue
        first = int(np.searchsorted(starts, starts[at] - CONTEXT))
        room = int(np.searchsorted(ends, starts[first] + STRETCH, side="right"))
        keep_to = total if room == total else _reaching(ends, ends[room - 1] - CONTEXT)
        last_doubt = int(doubtful[np.searchsorted(doubtful, keep_to) - 1])
        keep_to = min(keep_to, last_doubt + 1 + _BEYOND)
        last = min(room, _reaching(ends, ends[keep_to - 1] + CONTEXT) + 1)
        yield WordStretch(first, last, max(first, settled_to, at - _BEYOND), keep_to)
        settled_to = keep_to


def _reaching(ends: npt.NDArray[np.intp], piece: int) -> int:
    """The word with which so many pieces are reached."""
    return int(np.searchsorted(ends, piece))


class OnnxSecond:
    """On the CPU, one thread, as the first model."""

    def __init__(self, path: Path) -> None:
        import onnxruntime  # half of the start-up of whoever needs no names

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 4  # it would print, and texts must not get near a log
        self._session: Any = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )

    def __call__(self, rows: Rows) -> npt.NDArray[np.float32]:
        logits: npt.NDArray[np.float32] = self._session.run(None, inputs(rows))[0]
        return logits


def inputs(rows: Rows) -> dict[str, npt.NDArray[np.int32]]:
    """What goes into the model: `pieces` behind the one that begins all texts; `words`, the word of
    each; `about`, what is known of each word, and nothing of the beginning; `first`, where each
    word's first piece is."""
    pieces = rows[:, :PIECES].copy()
    pieces[~pieces.any(axis=1), 0] = _UNKNOWN
    there = pieces > 0
    counts = np.count_nonzero(there, axis=1)
    about = np.zeros((len(rows) + 1, COLUMNS - _ABOUT_THE_WORD.start), dtype=np.int32)
    about[1:] = rows[:, _ABOUT_THE_WORD]
    return {
        "pieces": np.concatenate([[_BEGINNING], pieces[there]]).astype(np.int32),
        "words": np.repeat(np.arange(len(rows) + 1), [1, *counts]).astype(np.int32),
        "about": about,
        "first": (1 + np.cumsum(counts) - counts).astype(np.int32),
    }
