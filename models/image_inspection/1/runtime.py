"""Grey images of a surface to what is wrong with it: a small network on ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

CLASSES = ("ok", "scratch", "stain")
SIDE = 64

Tensors = dict[str, npt.NDArray[np.generic]]


class Runtime:
    def __init__(self, directory: Path) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self._session = ort.InferenceSession(
            str(directory / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )

    def execute(self, inputs: Tensors) -> Tensors:
        """`image` [batch, 64, 64, 1] of bytes -> `class_scores` [batch, 3], which sum to one, and
        `defect_probability` [batch, 1], one minus the score of "ok"."""
        names = ["defect_probability", "class_scores"]
        return dict(zip(names, self._session.run(names, {"image": inputs["image"]}), strict=True))
