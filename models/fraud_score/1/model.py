"""Serves `runtime.Runtime` from Triton's Python backend, one execution for each dynamic batch."""

from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from ort_session import SessionConfig, report
from runtime import Runtime

INPUT, OUTPUTS = "features", ("score",)


class TritonPythonModel:
    def initialize(self, args):
        self._runtime = Runtime(Path(__file__).parent, SessionConfig.from_arguments(args))
        self._report = report(pb_utils, args, self._runtime.session)

    def execute(self, requests):
        arrays = [pb_utils.get_input_tensor_by_name(r, INPUT).as_numpy() for r in requests]
        try:
            results = self._runtime.execute({INPUT: np.concatenate(arrays)})
        except ValueError as error:
            if len(requests) == 1:
                return [pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))]
            # One of them is bad: run apart, the others are answered.
            return [response for request in requests for response in self.execute([request])]
        cuts = np.cumsum([len(array) for array in arrays])[:-1]
        split = [np.split(results[name], cuts) for name in OUTPUTS]
        return [answer(parts) for parts in zip(*split, strict=True)]


def answer(parts):
    tensors = [pb_utils.Tensor(*pair) for pair in zip(OUTPUTS, parts, strict=True)]
    return pb_utils.InferenceResponse(tensors)
