"""ONNX Runtime on the processor, for checks: one session for each file, its threads stated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime

from gateway.models.failures import ModelCommandFailed, WrongModel, cause

Array = npt.NDArray[np.generic]
Feed = Mapping[str, Array]  # by the names of the graph
Outputs = Mapping[str, Array]

_REMEDIES = {
    "max supported IR version": "set `ir_version` to that or less when you export it",
    "Current official support": "set `opset_version` to that or less when you export it",
    "not a registered function/op": "export it without extensions; a tokenizer is given with "
    "--tokenizer",
    "Failed to construct locale": "export it with another locale (skl2onnx has `locale` among its "
    "options), such as C",
    "Could not find an implementation": "export it in fp32",
}


class Level(Enum):
    """How far ONNX Runtime rewrites a graph."""

    NONE = "ORT_DISABLE_ALL"
    BASIC = "ORT_ENABLE_BASIC"  # folds constants
    EXTENDED = "ORT_ENABLE_EXTENDED"  # fuses operators; still runs on any processor
    ALL = "ORT_ENABLE_ALL"  # layouts for this processor


class Session:
    """One graph, ready to run."""

    def __init__(
        self,
        path: Path,
        *,
        threads: int = 1,
        level: Level = Level.ALL,
        optimised_to: Path | None = None,
    ) -> None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level.value)
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if optimised_to is not None:
            options.optimized_model_filepath = str(optimised_to)
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as exc:  # noqa: BLE001 - its exceptions share no class but this one
            # guard: V1.onnx-disk-full
            if optimised_to is not None:  # of a graph that was loaded before
                raise ModelCommandFailed(
                    f"{optimised_to}: cannot be written ({cause(exc)}); is there room for "
                    "it? What is served is as it was"
                ) from None
            reason = cause(exc)
            raise WrongModel(
                f"{path}: ONNX Runtime cannot load it: {reason}{_remedy(reason)}"
            ) from None
        self._path = path
        self.inputs: Sequence[str] = [value.name for value in self._session.get_inputs()]
        self.outputs: Sequence[str] = [value.name for value in self._session.get_outputs()]

    def run(self, feed: Feed) -> Outputs:
        try:
            outputs = self._session.run(None, {n: _readable(v) for n, v in feed.items()})
        except Exception as exc:  # noqa: BLE001 - as above
            raise WrongModel(f"{self._path}: does not run: {cause(exc)}") from None
        return dict(zip(self.outputs, outputs, strict=True))


def _remedy(reason: str) -> str:
    return next((f"; {remedy}" for words, remedy in _REMEDIES.items() if words in reason), "")


def _readable(values: Array) -> Array:
    """ONNX Runtime takes str, and of bytes their repr."""
    if values.dtype != np.dtype(object):
        return values
    flat = [v.decode() if isinstance(v, bytes) else v for v in values.ravel()]
    strings: Array = np.array(flat, object).reshape(values.shape)
    return strings
