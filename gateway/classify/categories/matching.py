"""A text held against all categories: by the words of tables, and by the sentences that examples
are near to, in the text as it stands and in the forms in which it may be read (C4)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gateway.classify import ScanFailed
from gateway.classify.categories import PREFIX, examples
from gateway.classify.categories.chunks import spans
from gateway.classify.categories.embeddings import EmbeddingModel, LocalEmbeddings, Vectors
from gateway.classify.categories.nearness import Nearness, fit, fit_gate
from gateway.classify.categories.piece_vectors import PieceVectors
from gateway.classify.categories.values import ValueTable
from gateway.classify.categories.words import words
from gateway.classify.conversations.memory import BETWEEN
from gateway.classify.text import normalise
from gateway.config import ClassifySettings
from gateway.core.types import Finding

_TOGETHER = 128  # parts of a text, between two looks at the clock
_SOLID = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Category:
    """Known by a table of values, or by what is near to examples."""

    name: str
    table: ValueTable | None = None
    nearness: Nearness | None = None
    gate: Nearness | None = None  # of the vectors of pieces

    @property
    def threshold(self) -> float:
        return 1.0 if self.nearness is None else self.nearness.threshold


@dataclass(frozen=True, slots=True)
class Match:
    """How near a part of a text is to a category: 0 to 1."""

    category: Category
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Harmless:
    """Texts that examples are compared with, by the model and by their pieces."""

    vectors: Vectors
    piece_vectors: Vectors

    @classmethod
    def embedded(
        cls, texts: Sequence[str], embeddings: EmbeddingModel, pieces: EmbeddingModel
    ) -> Harmless:
        return cls(embeddings.embed(texts), pieces.embed(texts))

    def __add__(self, other: Harmless) -> Harmless:
        return Harmless(
            np.concatenate([self.vectors, other.vectors]),
            np.concatenate([self.piece_vectors, other.piece_vectors]),
        )


class Matcher:
    def __init__(
        self,
        categories: Sequence[Category],
        embeddings: EmbeddingModel | None,
        pieces: EmbeddingModel | None = None,
    ) -> None:
        """`pieces`: what the categories' gates go by; without it the model reads everything."""
        self.categories = categories
        self._pieces = pieces
        self._gates = [c.gate for c in categories if c.nearness is not None]
        self._tables = [(c, c.table) for c in categories if c.table is not None]
        self._near = [(c, c.nearness) for c in categories if c.nearness is not None]
        self._embeddings = embeddings

    @classmethod
    def load(cls, settings: ClassifySettings) -> Matcher:
        """Takes a second or two where there are examples. Raises ScannerUnfit."""
        embeddings = LocalEmbeddings(settings.embeddings) if settings.embeddings else None
        categories: list[Category] = []
        pieces: PieceVectors | None = None
        benign: Harmless | None = None
        for name, its in settings.categories.items():
            if its.values is not None and its.key_file is not None:
                categories.append(Category(name, ValueTable.load(its.values, its.key_file)))
            elif its.examples is not None and embeddings is not None:
                pieces = pieces or PieceVectors(embeddings, examples.benign())
                benign = benign or Harmless.embedded(examples.benign(), embeddings, pieces)
                own = examples.read_examples(its.examples)
                harmless = benign
                if its.counterexamples is not None:
                    more = examples.read_examples(its.counterexamples)
                    parts = [text[start:end] for text in more for start, end in spans(text)]
                    harmless += Harmless.embedded(parts, embeddings, pieces)
                categories.append(
                    by_examples(name, own, harmless, its.threshold, embeddings, pieces)
                )
        return cls(categories, embeddings, pieces)

    @property
    def needs_model(self) -> bool:
        return bool(self._near)

    def findings(self, text: str, go_on: Callable[[], None] = lambda: None) -> list[Finding]:
        """What counts for its category; `go_on` may raise, to stop what takes too long."""
        return [
            Finding(PREFIX + match.category.name, match.start, match.end, match.score)
            for match in self.matches(text, go_on)
            if match.score >= match.category.threshold
        ]

    def matches(self, text: str, go_on: Callable[[], None] = lambda: None) -> Iterator[Match]:
        """All parts with their scores, values of tables first. Raises ScanFailed."""
        # guard: C21.forms -> pieces: tuple[normalise.NormalisedPiece, ...] = ()
        pieces = normalise.wordings(text)
        yield from self._values(text, pieces)
        if self._near:
            yield from self._nearness(text, pieces, go_on)

    def _values(self, text: str, pieces: Sequence[normalise.NormalisedPiece]) -> Iterator[Match]:
        if not self._tables:
            return
        own = words(text)
        for category, table in self._tables:
            for first, last in table.matches(own):
                yield Match(category, *_place(text, first, last), 1.0)
        for piece in pieces:
            own = words(piece.text)
            for category, table in self._tables:
                if table.matches(own):
                    yield Match(category, piece.start, piece.end, 1.0)

    def _nearness(
        self,
        text: str,
        pieces: Sequence[normalise.NormalisedPiece],
        go_on: Callable[[], None],
    ) -> Iterator[Match]:
        places = spans(text)
        parts = [text[start:end].replace(BETWEEN, "\n") for start, end in places]
        for piece in pieces:
            for start, end in spans(piece.text):
                parts.append(piece.text[start:end])
                places.append((piece.start, piece.end))
        for first in range(0, len(parts), _TOGETHER):
            go_on()
            some = [first + at for at in self._passed(parts[first : first + _TOGETHER])]
            if not some:
                continue
            vectors = self._embed([parts[at] for at in some])
            for category, nearness in self._near:
                for at, score in zip(some, nearness.scores(vectors).tolist(), strict=True):
                    yield Match(category, *places[at], score)

    def _passed(self, parts: Sequence[str]) -> Sequence[int]:
        """Those that the gate of some category does not hold back."""
        gates = [gate for gate in self._gates if gate is not None]
        if self._pieces is None or len(gates) < len(self._gates):
            return range(len(parts))
        vectors = self._pieces.embed(parts)
        # guard: C21.gate-vectors gate.scores(vectors) < gate.threshold ->
        #   ~(gate.scores(vectors) >= gate.threshold)
        far = [gate.scores(vectors) < gate.threshold for gate in gates]  # no NaN is
        passing: list[int] = np.flatnonzero(~np.logical_and.reduce(far)).tolist()
        return passing

    def _embed(self, parts: Sequence[str]) -> Vectors:
        """Raises ScanFailed where the vectors say nothing of the parts."""
        assert self._embeddings is not None
        vectors = self._embeddings.embed(parts)
        # guard: C21.vectors
        if len(vectors) != len(parts) or not np.isfinite(vectors).all():
            raise ScanFailed("the embedding model's answer does not fit the question")
        return vectors


def by_examples(
    name: str,
    own: Sequence[str],
    harmless: Harmless,
    threshold: float | None,
    embeddings: EmbeddingModel,
    pieces: EmbeddingModel,
) -> Category:
    """A `threshold` of the operator's has no gate, which would have to be lower, too. Raises
    ScannerUnfit where the examples are not alike."""
    nearness = fit(name, embeddings.embed(own), harmless.vectors, threshold)
    if threshold is not None:  # guard: C21.own-threshold
        return Category(name, nearness=nearness)
    gate = fit_gate(pieces.embed(own), harmless.piece_vectors)
    return Category(name, nearness=nearness, gate=gate)


def _place(text: str, first: int, last: int) -> tuple[int, int]:
    """From the start of one word to the end of another, both by their number."""
    count, start = 0, 0
    for solid in _SOLID.finditer(text):
        if count <= first:
            start = solid.start()
        count += len(words(solid[0]))
        if count >= last:
            return start, solid.end()
    return start, len(text)
