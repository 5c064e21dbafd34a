"""Serves `runtime.Runtime` from Triton's Python backend, one execution for each dynamic batch."""

from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from ort_session import SessionConfig, report
from runtime import Runtime
from text_pieces import COUNTS, truncations

INPUT, OUTPUTS = "text", ("embedding", COUNTS)


class TritonPythonModel:
    def initialize(self, args):
        self._runtime = Runtime(Path(__file__).parent, SessionConfig.from_arguments(args))
        self._report = report(pb_utils, args, self._runtime.session)

    def execute(self, requests):
        arrays = [pb_utils.get_input_tensor_by_name(r, INPUT).as_numpy() for r in requests]
        try:
            truncated = truncations(requests, [len(array) for array in arrays])
            results = self._runtime.execute({INPUT: np.concatenate(arrays)}, truncated)
        except ValueError as error:
            if len(requests) == 1:
                refusal = pb_utils.TritonError(str(error), pb_utils.TritonError.INVALID_ARG)
                return [pb_utils.InferenceResponse(error=refusal)]
            # One of them is bad: run apart, the others are answered.
            return [response for request in requests for response in self.execute([request])]
        cuts = np.cumsum([len(array) for array in arrays])[:-1]
        split = [np.split(results[name], cuts) for name in OUTPUTS]
        return [answer(parts) for parts in zip(*split, strict=True)]


def answer(parts):
    tensors = [pb_utils.Tensor(*pair) for pair in zip(OUTPUTS, parts, strict=True)]
    return pb_utils.InferenceResponse(tensors)
