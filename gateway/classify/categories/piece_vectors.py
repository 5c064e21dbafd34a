"""A text as the mean of its word pieces' own vectors: what says, at a fraction of the model's
price, which sentences it need not read.

The model computes each piece once, alone, when a text has it first. Pieces that stand in many
harmless sentences weigh less.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gateway.classify.categories.embeddings import LocalEmbeddings, Vectors


class PieceVectors:
    def __init__(self, model: LocalEmbeddings, harmless: Sequence[str]) -> None:
        """`harmless`: texts that say how common a piece is."""
        self._model = model
        rows = model.pieces(harmless)
        counts = np.bincount(
            np.concatenate([np.unique(row) for row in rows]), minlength=model.vocabulary
        )
        self._weights = np.log((len(rows) + 1) / (counts + 1)).astype(np.float32)
        self._vectors: Vectors | None = None  # a row a piece; unused rows take no memory
        self._known = np.zeros(model.vocabulary, bool)
        self._mean: Vectors = self._rows(np.flatnonzero(counts)).mean(axis=0)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row a text, of length one; zeros for a text without a piece."""
        rows = self._model.pieces(texts)
        sizes = [len(row) for row in rows]
        ids = np.fromiter((piece for row in rows for piece in row), np.int64, sum(sizes))
        owners = np.repeat(np.arange(len(rows)), sizes)
        weighted = (self._rows(ids) - self._mean) * self._weights[ids, None]
        vectors = np.zeros((len(texts), weighted.shape[1]), np.float32)
        np.add.at(vectors, owners, weighted)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.where(lengths == 0, 1, lengths)
        return vectors

    def _rows(self, ids: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Vectors:
        missing = np.unique(ids[~self._known[ids]])
        if len(missing):
            computed = self._model.embed_pieces(missing.tolist())
            if self._vectors is None:
                self._vectors = np.zeros((len(self._known), computed.shape[1]), np.float32)
            self._vectors[missing] = computed
            self._known[missing] = True
        assert self._vectors is not None
        rows: Vectors = self._vectors[ids]
        return rows
