"""Grey images of a surface to what is wrong with it: a small network on ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from ort_session import OrtSession, SessionConfig

CLASSES = ("ok", "scratch", "stain")
SIDE = 64

THREADS = 1  # a batch is done before a second one has woken

Tensors = dict[str, npt.NDArray[np.generic]]


class Runtime:
    def __init__(self, directory: Path, wanted: SessionConfig | None = None) -> None:
        self.session = OrtSession(directory, wanted, most_threads=THREADS)

    def execute(self, inputs: Tensors) -> Tensors:
        """`image` [batch, 64, 64, 1] of bytes -> `class_scores` [batch, 3], which sum to one, and
        `defect_probability` [batch, 1], one minus the score of "ok"."""
        return self.session.run({"image": inputs["image"]})
