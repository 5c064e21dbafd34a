"""What a graph says alone, and what its model says behind a gateway."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import tritonclient.grpc as grpcclient
from tritonclient.utils import np_to_triton_dtype

from tests.scenarios.exports import ExportCase

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
_TYPES = {"float": np.float32, "double": np.float64, "float16": np.float16, "bool": np.bool_}
_WORDS = ("a", "b", "other", "c")
_SIZE = 4  # of a free axis


class GraphAlone:
    """The exporter's own file in ONNX Runtime, as nobody has changed it."""

    def __init__(self, file: Path, case: ExportCase) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.graph_optimization_level = level
        self._session = onnxruntime.InferenceSession(
            str(file), options, providers=["CPUExecutionProvider"]
        )
        self._case = case

    def rows(self, rows: int, seed: int) -> dict[str, Array]:
        """Inputs whose first free axis, of rows, has this size where the case does not say one."""
        generator = np.random.default_rng(seed)
        return {
            given.name: self._values(given, rows, generator) for given in self._session.get_inputs()
        }

    def _values(self, given: Any, rows: int, generator: np.random.Generator) -> Array:
        sizes = self._case.sizes
        shape = [
            dim if isinstance(dim, int) else sizes.get(dim or "", rows if at == 0 else _SIZE)
            for at, dim in enumerate(given.shape)
        ]
        kind = given.type.removeprefix("tensor(").removesuffix(")")
        if kind == "string":
            return generator.choice(np.array(_WORDS, object), shape)
        dtype = np.dtype(_TYPES.get(kind, kind))
        if dtype.kind == "f":
            return np.asarray(generator.normal(0, 1, shape)).astype(dtype)
        return np.asarray(generator.integers(0, 2, shape)).astype(dtype)

    def answer(self, feed: Arrays) -> dict[str, Array]:
        """Maps of scores as columns, in the order of their classes."""
        names = [output.name for output in self._session.get_outputs()]
        outputs = self._session.run(None, dict(feed))
        return {n: _columns(v) for n, v in zip(names, outputs, strict=True)}


def _columns(values: Any) -> Array:
    if isinstance(values, list):
        return np.array([[row[name] for name in sorted(row)] for row in values], np.float32)
    return np.asarray(values)


def call(
    client: grpcclient.InferenceServerClient, model: str, feed: Arrays, rows: bool = True
) -> dict[str, Array]:
    """`rows`: of a model that takes batches."""
    tensors = []
    for name, values in feed.items():
        wire = _wire(values, rows)
        tensor = grpcclient.InferInput(name, list(wire.shape), np_to_triton_dtype(wire.dtype))
        tensor.set_data_from_numpy(wire)
        tensors.append(tensor)
    answered = client.infer(model, tensors)
    return {o.name: answered.as_numpy(o.name) for o in answered.get_response().outputs}


def _wire(values: Array, rows: bool) -> Array:
    """One value has an axis of size 1 where the protocol carries it."""
    if values.dtype == np.dtype(object):
        values = np.array([v.encode() for v in values.ravel()], object).reshape(values.shape)
    return values[..., None] if values.ndim == rows else values


def assert_same(served: Arrays, alone: Arrays) -> None:
    assert served.keys() == alone.keys()
    for name, expected in alone.items():
        values = served[name]
        if expected.dtype == np.dtype(object):
            values = np.array([v.decode() for v in values.ravel()], object)
            assert values.tolist() == expected.ravel().tolist(), name
            continue
        assert values.dtype == expected.dtype, name
        tolerance = 1e-2 if values.dtype == np.float16 else 1e-4
        np.testing.assert_allclose(
            values.reshape(expected.shape), expected, rtol=tolerance, atol=tolerance, err_msg=name
        )
