"""Texts to sentence vectors: all-MiniLM-L6-v2 on ONNX Runtime, with tokenizer and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from ort_session import OrtSession, SessionConfig
from tokenizers import Encoding, Tokenizer

MAX_PIECES = 256  # the length that the weights were trained for; longer texts are cut
LARGEST_BATCH = 32
RUN_COSTS = 24  # a run costs as much as so many more pieces in it, at one thread and at two
SHAPES = {
    name: ((1, 1), (8, 64), (LARGEST_BATCH, MAX_PIECES)) for name in ("input_ids", "attention_mask")
}

Tensors = dict[str, npt.NDArray[np.generic]]


class Runtime:
    def __init__(self, directory: Path, wanted: SessionConfig | None = None) -> None:
        self.session = OrtSession(directory, wanted, shapes=SHAPES)
        self._tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self._tokenizer.enable_truncation(MAX_PIECES)
        self._tokenizer.no_padding()

    def execute(self, inputs: Tensors) -> Tensors:
        """`text` [batch, 1] of UTF-8 bytes -> `embedding` [batch, 384], each of length one."""
        texts = [decoded(text) for text in inputs["text"].ravel()]
        pieces = self._tokenizer.encode_batch(texts)
        runs = together([len(p) for p in pieces])
        found = np.concatenate([self._run([pieces[at] for at in run]) for run in runs])
        embedding = np.empty_like(found)
        embedding[np.concatenate(runs)] = found
        return {"embedding": embedding}

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


def decoded(text: object) -> str:
    try:
        return text.decode("utf-8") if isinstance(text, bytes) else str(text)
    except UnicodeDecodeError:
        # Without a cause: Python's own message would quote the text, and errors end up in logs.
        raise ValueError("text must be UTF-8") from None
