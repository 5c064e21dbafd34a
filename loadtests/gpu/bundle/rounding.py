"""A graph whose large weights are whole numbers: an eighth of the size once it is packed.

    python -m loadtests.gpu.bundle.rounding FOLDER GRAPH     restores

Each row of a weight is kept as whole numbers from -LEVELS to LEVELS and one scale. The restored
graph has the shapes, types and operators of the original, so it costs the same to run; what it
answers is near the original's, and is compared with its own answers on the processor.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

LEVELS = 7
_LARGE = 1 << 15  # values; what is smaller stays as it is
_GRAPH, _WEIGHTS = "graph.onnx", "weights.npz"


def round_off(source: Path, into: Path, levels: int = LEVELS) -> None:
    """Writes the graph without its large weights, and these as whole numbers."""
    import onnx  # of the extra `models`

    model = onnx.load(source)
    packed: dict[str, npt.NDArray[Any]] = {}
    for weight in model.graph.initializer:
        values = onnx.numpy_helper.to_array(weight)
        if values.dtype != np.float32 or values.size < _LARGE:
            continue
        rows = values.reshape(values.shape[0], -1)
        scales = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-12) / levels
        packed[f"{weight.name}|scales"] = scales.astype(np.float32)
        packed[f"{weight.name}|values"] = np.rint(rows / scales).astype(np.int8)
        weight.ClearField("raw_data")
        weight.ClearField("float_data")
    into.mkdir(parents=True, exist_ok=True)
    (into / _GRAPH).write_bytes(model.SerializeToString(deterministic=True))
    np.savez(into / _WEIGHTS, **packed)


def restore(source: Path, into: Path) -> None:
    import onnx  # of the extra `models`

    model = onnx.load(source / _GRAPH)
    with np.load(source / _WEIGHTS) as packed:
        for weight in model.graph.initializer:
            if f"{weight.name}|values" in packed:
                rows = packed[f"{weight.name}|values"] * packed[f"{weight.name}|scales"]
                weight.raw_data = rows.astype("<f4").tobytes()
    into.write_bytes(model.SerializeToString(deterministic=True))


if __name__ == "__main__":
    restore(Path(sys.argv[1]), Path(sys.argv[2]))
