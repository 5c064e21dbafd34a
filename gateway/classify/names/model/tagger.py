"""The names models at work: text in, mentions of people and addresses out.

Weights are files beside this module (`weights/`, with the model card). A long text is read in
windows that overlap by more than the model sees to either side, so that a mention at a border is
read as if there were none. Windows of all texts in a call of `find` go through the model together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gateway.classify.names import USERNAME
from gateway.classify.names.model.card import WEIGHTS, card
from gateway.classify.names.model.features import COLUMNS, Features
from gateway.classify.names.model.labels import BEGIN, INSIDE, LABELS
from gateway.classify.names.model.lexicon import Lexicon
from gateway.classify.names.model.second import DoubtThresholds, SecondReading
from gateway.classify.names.model.words import Case, TextWords, WordGap, cut, handles, letter_case
from gateway.classify.names.records.plausible import is_common_word

WINDOW = 512
MARGIN = 24
"""TextWords. The convolutions see 1 + 2 + 4 + 8 + 1 + 2 = 18 words to either side."""
BATCH_WORDS = 1024
"""About 20 ms on one core. More at once is no quicker a word, and whoever wants the model waits."""
SURNAME = 0.02
"""The least probability of a capitalised word to be a person's directly behind one that is. No text
of the held-out fifth is flagged that was not before (`loadtests.classify.accuracy --held-out`)."""
ROUND, ROUND_SHORT = 8, 4  # windows are padded to a multiple of so many words
SHORT_WORDS = 32
RUN_WORDS = 9
"""What a run costs beside its words, in words: as much padding is no dearer than another run."""

Probabilities = npt.NDArray[np.float32]  # (words, labels)


@dataclass(frozen=True, slots=True)
class Mention:
    """A part of a text that the model takes for one, with its probability."""

    kind: str  # one of labels.KINDS, or USERNAME
    start: int
    end: int
    probability: float
    words: int


class TaggerModel(Protocol):
    """Rows of features in, logits out: `(texts, words, COLUMNS) int32 -> (texts, words, labels)`.

    Rows of zeros are padding.
    """

    def __call__(self, rows: npt.NDArray[np.int32], /) -> npt.NDArray[np.float32]: ...


class OnnxModel:
    """On the CPU, one thread: calls run beside each other, a call alone is short."""

    def __init__(self, path: Path, threads: int = 1) -> None:
        import onnxruntime  # half of the start-up of whoever needs no names

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4  # it would print, and texts must not get near a log
        self._session: Any = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )

    def __call__(self, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        logits: npt.NDArray[np.float32] = self._session.run(None, {"rows": rows})[0]
        return logits


def load_features(weights: Path = WEIGHTS) -> Features:
    pieces = (weights / "pieces.txt").read_text("utf-8").split("\n")
    return Features(
        {piece: at for at, piece in enumerate(pieces)}, Lexicon.load(weights / "lexicon.npz")
    )


def load_second(weights: Path = WEIGHTS) -> SecondReading:
    doubt = card(weights)["doubt"]
    thresholds = DoubtThresholds(
        doubt["least"], doubt["sure"], sure_full=doubt["sure_of_more"], share=doubt["share"]
    )
    return SecondReading.load(weights / "second.onnx", thresholds)


@dataclass(frozen=True, slots=True)
class _Window:
    text: int  # index of the text
    first: int  # word
    last: int
    keep_from: int
    keep_to: int


class Tagger:
    """The first model, and the second for what it doubts, where there is one. Not safe for several
    threads at once; `go_on` may call it again."""

    def __init__(
        self, features: Features, model: TaggerModel, second: SecondReading | None = None
    ) -> None:
        self.features = features
        self._model = model
        self.second = second

    @classmethod
    def load(cls, weights: Path = WEIGHTS) -> Tagger:
        return cls(load_features(weights), OnnxModel(weights / "first.onnx"), load_second(weights))

    def find(
        self,
        texts: Sequence[str],
        threshold: float = 0.5,
        go_on: Callable[[], None] = lambda: None,
        handle: float = 1.0,
    ) -> list[list[Mention]]:
        """The mentions of each text at or over the threshold, in order, and then the handles that
        are as likely as `handle` to be somebody's. `go_on` is called between batches and may raise,
        to stop what takes too long."""
        return self.find_in([cut(text) for text in texts], threshold, go_on, handle)

    def find_in(
        self,
        cuts: Sequence[TextWords],
        threshold: float,
        go_on: Callable[[], None] = lambda: None,
        handle: float = 1.0,
    ) -> list[list[Mention]]:
        """As `find`, in texts that are cut already."""
        return [
            _mentions(words, own, threshold, handle)
            for words, own in zip(cuts, self.probabilities(cuts, go_on), strict=True)
        ]

    def probabilities(
        self, cuts: Sequence[TextWords], go_on: Callable[[], None] = lambda: None
    ) -> list[Probabilities]:
        """Of both models. Raises ValueError when the answer of one is none."""
        first = self.first(cuts, go_on)
        if self.second is None:
            return first
        return [
            self.second.settle(words, own, self.features.rows, go_on)
            for words, own in zip(cuts, first, strict=True)
        ]

    def first(
        self, cuts: Sequence[TextWords], go_on: Callable[[], None] = lambda: None
    ) -> list[Probabilities]:
        """Of the first model, which reads those that are the same once: texts and their other forms
        have many such parts. Raises ValueError when its answer is none."""
        keys = [(*words.words, *words.gaps) for words in cuts]
        distinct = dict(zip(keys, cuts, strict=True))
        read = dict(zip(distinct, self._first(list(distinct.values()), go_on), strict=True))
        return [read[key] for key in keys]

    def _first(self, cuts: Sequence[TextWords], go_on: Callable[[], None]) -> list[Probabilities]:
        probabilities = [np.zeros((len(words), len(LABELS)), dtype=np.float32) for words in cuts]
        for batch in _batches(list(_windows(cuts))):
            go_on()
            logits = self._logits([cuts[w.text].part(w.first, w.last) for w in batch])
            for at, w in enumerate(batch):
                window_logits = logits[at, w.keep_from - w.first : w.keep_to - w.first]
                probabilities[w.text][w.keep_from : w.keep_to] = _softmax(window_logits)
        return probabilities

    def certain(
        self, words: TextWords, first: Probabilities, threshold: float, handle: float
    ) -> list[Mention]:
        """Those of which the first model doubts no word."""
        doubtful = [] if self.second is None else self.second.doubtful(words, first)
        starts = [words.starts[at] for at in doubtful]
        return [
            mention
            for mention in _mentions(words, first, threshold, handle)
            if not any(mention.start <= start < mention.end for start in starts)
        ]

    def settled(
        self,
        words: TextWords,
        first: Probabilities,
        threshold: float,
        handle: float,
        go_on: Callable[[], None],
    ) -> list[Mention]:
        """Those that both models read, of which the first has read already."""
        if self.second is not None:
            first = self.second.settle(words, first, self.features.rows, go_on)
        return _mentions(words, first, threshold, handle)

    def by(self, second: SecondReading, text: str, threshold: float) -> list[Mention]:
        """The mentions in a short text that the second model finds by itself."""
        words = cut(text)
        return list(mentions(words, second.read(self.features.rows(words)), threshold))

    def _logits(self, windows: Sequence[TextWords]) -> npt.NDArray[np.float32]:
        longest = _padded(max(map(len, windows)))
        table = np.zeros((len(windows), longest, COLUMNS), dtype=np.int32)
        for at, words in enumerate(windows):
            table[at, : len(words)] = self.features.rows(words)
        logits = self._model(table)
        # NaN is under every threshold: it would look like a text without names.
        if np.shape(logits) != (*table.shape[:2], len(LABELS)) or not np.isfinite(logits).all():
            raise ValueError("the names model's answer does not fit the question")
        return logits


def _softmax(logits: npt.NDArray[np.float32]) -> Probabilities:
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    result: Probabilities = shifted / shifted.sum(-1, keepdims=True)
    return result


def _windows(cuts: Sequence[TextWords]) -> Iterator[_Window]:
    for text, words in enumerate(cuts):
        total, first = len(words), 0
        while first < total:
            last = min(total, first + WINDOW)
            keep_from = first if first == 0 else first + MARGIN
            keep_to = last if last == total else last - MARGIN
            yield _Window(text, first, last, keep_from, keep_to)
            if last == total:
                break
            first = last - 2 * MARGIN


def _padded(words: int) -> int:
    return words + -words % (ROUND_SHORT if words <= SHORT_WORDS else ROUND)


def _batches(windows: list[_Window]) -> Iterator[list[_Window]]:
    """Windows of like length together, so that little is padding."""
    batch: list[_Window] = []
    shorter = 0
    for window in sorted(windows, key=lambda w: w.last - w.first):
        longest = _padded(window.last - window.first)
        padding = (longest - shorter) * len(batch)
        if batch and (padding > RUN_WORDS or (len(batch) + 1) * longest > BATCH_WORDS):
            yield batch
            batch = []
        batch.append(window)
        shorter = longest
    if batch:
        yield batch


def _mentions(
    words: TextWords, probabilities: Probabilities, threshold: float, handle: float
) -> list[Mention]:
    return [*mentions(words, probabilities, threshold), *usernames(words, probabilities, handle)]


def mentions(
    words: TextWords,
    probabilities: Probabilities,
    threshold: float,
    kinds: Sequence[str] = ("PERSON", "STREET_ADDRESS"),
) -> Iterator[Mention]:
    """Runs of words each of which is at least as likely as the threshold to belong to the kind; a
    word that is likelier to begin a mention than to continue one begins another."""
    for kind in kinds:
        begins, goes_on = probabilities[:, BEGIN[kind]], probabilities[:, INSIDE[kind]]
        likely = begins + goes_on
        inside = likely >= threshold
        if not inside.any():
            continue
        if kind == "PERSON":
            inside |= _surnames(words, inside, likely)
        anew = begins > goes_on
        anew[1:] |= ~inside[:-1]
        anew[0] = True
        at = np.flatnonzero(inside)
        for run in np.split(at, np.flatnonzero(anew[at])):
            if len(run):
                yield Mention(
                    kind,
                    words.starts[run[0]],
                    words.ends[run[-1]],
                    float(likely[run].max()),
                    len(run),
                )


def _surnames(
    words: TextWords, inside: npt.NDArray[np.bool_], likely: Probabilities
) -> npt.NDArray[np.bool_]:
    """The words behind a name that are written like the rest of it and are a person's no less than
    `SURNAME` likely. Many surnames are places' or companies' too ("Zbigniew Guimarães"), and which
    of both the model takes them for changes with what else stands in the call. An everyday word
    ("Ask Janet Please") is a surname only where the model says so itself."""
    result = np.zeros(len(words), dtype=np.bool_)
    for at in np.flatnonzero(~inside[1:] & (likely[1:] >= SURNAME)) + 1:
        follows = (inside[at - 1] or result[at - 1]) and words.gaps[at] == WordGap.SPACE
        titled = letter_case(words.words[at]) == Case.TITLE == letter_case(words.words[at - 1])
        result[at] = follows and titled and not is_common_word(words.words[at])
    return result


def usernames(
    words: TextWords, probabilities: Probabilities, threshold: float
) -> Iterator[Mention]:
    """Handles any word of which is at least as likely as the threshold to belong to a person."""
    for first, last in handles(words):
        likely = (
            probabilities[first:last, BEGIN["PERSON"]] + probabilities[first:last, INSIDE["PERSON"]]
        )
        if (probability := float(likely.max())) >= threshold:
            start, end = words.starts[first], words.ends[last - 1]
            yield Mention(USERNAME, start, end, probability, last - first)
