"""Echoes its input, plus one on the first request of a sequence.

That is what Triton's client examples expect of `simple_sequence`: it shows that the sequence flags
arrive. Correlation ids may be numbers or texts, for the model does not ask for them.
"""

import numpy as np
import triton_python_backend_utils as pb_utils


def control(request, name):
    return bool(pb_utils.get_input_tensor_by_name(request, name).as_numpy().any())


class TritonPythonModel:
    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        value = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
        if control(request, "READY") and control(request, "START"):
            value = value + np.int32(1)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", value)])
