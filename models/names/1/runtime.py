"""Rows of word features to logits of labels: the tagger of gateway/classify/names on ONNX Runtime.

The gateway cuts text into words, makes their rows and reads the logits; this is the part between,
so the two share no code and no text comes here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
from ort_session import OrtSession, SessionConfig

COLUMNS = 21
BATCH_WORDS = 4096  # padding included; more at once is no quicker and takes memory

Tensors = dict[str, npt.NDArray[np.generic]]
Rows = npt.NDArray[np.int32]  # (texts, words, COLUMNS); zeros are padding
Logits = npt.NDArray[np.float32]  # (texts, words, labels)


class Runtime:
    def __init__(self, directory: Path, wanted: SessionConfig | None = None) -> None:
        self.session = OrtSession(directory, wanted)

    def execute(self, inputs: Tensors) -> Tensors:
        (found,) = self.each([inputs["rows"].astype(np.int32, copy=False)])
        return {"logits": found}

    def each(self, tables: Sequence[Rows]) -> list[Logits]:
        """The logits of each table; tables may differ in length, and like lengths run together."""
        for table in tables:
            check(table)
        found: dict[int, Logits] = {}
        for batch in batches(tables):
            found |= dict(zip(batch, self._run([tables[at] for at in batch]), strict=True))
        return [found[at] for at in range(len(tables))]

    def _run(self, tables: list[Rows]) -> list[Logits]:
        longest = max(table.shape[1] for table in tables)
        rows = np.concatenate(
            [np.pad(t, ((0, 0), (0, longest - t.shape[1]), (0, 0))) for t in tables]
        )
        try:
            logits = self.session.run({"rows": rows})["logits"]
        except ort.capi.onnxruntime_pybind11_state.InvalidArgument:
            # Without a cause: ONNX Runtime's own message names the number that is no row.
            raise ValueError("rows must be numbers of rows in the model's tables") from None
        ends = np.cumsum([len(table) for table in tables])[:-1]
        cuts = np.split(logits, ends)
        return [cut[:, : t.shape[1]] for cut, t in zip(cuts, tables, strict=True)]


def check(table: Rows) -> None:
    if table.ndim != 3 or table.shape[2] != COLUMNS or not table.size:
        raise ValueError(f"rows must be of shape [texts, words, {COLUMNS}], with a word or more")
    if table.min() < 0:
        raise ValueError("rows must be numbers of rows in the model's tables")


def batches(tables: Sequence[Rows]) -> list[list[int]]:
    """Indexes of tables that run together."""
    found: list[list[int]] = []
    texts = 0
    for at in sorted(range(len(tables)), key=lambda at: tables[at].shape[1]):
        texts += len(tables[at])
        if not found or texts * tables[at].shape[1] > BATCH_WORDS:
            found.append([])
            texts = len(tables[at])
        found[-1].append(at)
    return found
