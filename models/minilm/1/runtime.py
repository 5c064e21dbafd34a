"""Texts to sentence vectors: all-MiniLM-L6-v2 on ONNX Runtime, with tokenizer and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from ort_session import OrtSession, SessionConfig, decoded
from text_pieces import COUNTS, TextPieces, Truncation, counts
from tokenizers import Encoding

MAX_PIECES = 256  # the length that the weights were trained for
LARGEST_BATCH = 32
RUN_COSTS = 24  # a run costs as much as so many more pieces in it, at one thread and at two
SHAPES = {
    name: ((1, 1), (8, 64), (LARGEST_BATCH, MAX_PIECES)) for name in ("input_ids", "attention_mask")
}

Tensors = dict[str, npt.NDArray[np.generic]]


class Runtime:
    def __init__(self, directory: Path, wanted: SessionConfig | None = None) -> None:
        self.session = OrtSession(directory, wanted, shapes=SHAPES)
        self._pieces = TextPieces(directory / "tokenizer.json", MAX_PIECES)

    def execute(self, inputs: Tensors, truncations: Sequence[Truncation] = ()) -> Tensors:
        """`text` [batch, 1] of UTF-8 bytes -> `embedding` [batch, 384], each of length one, and
        how many pieces each text has. Raises ValueError for texts that are too long, unless
        `truncations` has them cut."""
        pieces = self._pieces.encoded(decoded(inputs["text"]), truncations)
        runs = together([len(p) for p in pieces])
        vectors = np.concatenate([self._run([pieces[at] for at in run]) for run in runs])
        embedding = np.empty_like(vectors)
        embedding[np.concatenate(runs)] = vectors
        return {"embedding": embedding, COUNTS: counts(pieces)}

    def _run(self, pieces: Sequence[Encoding]) -> npt.NDArray[np.generic]:
        """Padded to the longest."""
        ids = np.zeros((len(pieces), max(map(len, pieces))), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, piece in enumerate(pieces):
            ids[row, : len(piece)] = piece.ids
            mask[row, : len(piece)] = 1
        return self.session.run({"input_ids": ids, "attention_mask": mask})["embedding"]


def together(lengths: Sequence[int]) -> list[list[int]]:
    """Indexes of texts that run together, so that runs and padding cost the least: shortest paths
    over the texts in the order of their lengths."""
    order = sorted(range(len(lengths)), key=lambda at: lengths[at])
    least, begins = [0.0], [0]
    for end in range(1, len(order) + 1):
        longest = lengths[order[end - 1]]
        cost, begin = min(
            (least[begin] + RUN_COSTS + (end - begin) * longest, begin) for begin in range(end)
        )
        least.append(cost)
        begins.append(begin)
    runs, end = [], len(order)
    while end:
        runs.append(order[begins[end] : end])
        end = begins[end]
    return runs
