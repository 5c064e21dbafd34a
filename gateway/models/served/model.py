"""Serves `runtime.Runtime` from Triton's Python backend, one execution for each dynamic batch.

Copied here by `spillway models build`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from ort_session import report
from runtime import Runtime


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        config = json.loads(args["model_config"])
        parameters = {name: value["string_value"] for name, value in config["parameters"].items()}
        threads = int(parameters["threads"]) if "threads" in parameters else None
        self._runtime = Runtime(Path(__file__).parent, parameters.get("graph"), threads)
        self._report = report(pb_utils, args, self._runtime.session)
        self._inputs = [tensor["name"] for tensor in config["input"]]
        self._outputs = [tensor["name"] for tensor in config["output"]]
        self._batched = config["max_batch_size"] > 0

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        if not self._batched and len(requests) > 1:
            return [response for request in requests for response in self.execute([request])]
        arrays = {
            name: [pb_utils.get_input_tensor_by_name(r, name).as_numpy() for r in requests]
            for name in self._inputs
        }
        try:
            joined = {n: v[0] if len(v) == 1 else np.concatenate(v) for n, v in arrays.items()}
            results = self._runtime.execute(joined, self._truncations(requests, arrays))
        except Exception as error:  # noqa: BLE001 - ONNX Runtime's exceptions share no class
            if len(requests) == 1:
                return [pb_utils.InferenceResponse(error=_refusal(error))]
            # One of them is bad: run apart, the others are answered.
            return [response for request in requests for response in self.execute([request])]
        if len(requests) == 1:
            return [self._answer([results[name] for name in self._outputs])]
        cuts = np.cumsum([len(array) for array in arrays[self._inputs[0]]])[:-1]
        split = [np.split(results[name], cuts) for name in self._outputs]
        return [self._answer(parts) for parts in zip(*split, strict=True)]

    def _truncations(self, requests: Sequence[Any], arrays: dict[str, list[Any]]) -> Any:
        """Of each row; none where the model takes no text."""
        if not self._runtime.takes_text:
            return ()
        from text_pieces import truncations  # only models that take text carry it

        return truncations(requests, [len(array) for array in arrays[self._inputs[0]]])

    def _answer(self, parts: Sequence[Any]) -> Any:
        pairs = zip(self._outputs, parts, strict=True)
        return pb_utils.InferenceResponse([pb_utils.Tensor(*pair) for pair in pairs])


def _refusal(error: Exception) -> Any:
    """Our own words only: ONNX Runtime's messages quote values of inputs."""
    if isinstance(error, ValueError):
        return pb_utils.TritonError(str(error), pb_utils.TritonError.INVALID_ARG)
    return pb_utils.TritonError("the inputs do not fit the graph")
