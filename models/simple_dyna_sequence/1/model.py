"""As `simple_sequence`, and adds the numeric correlation id to the last answer of a sequence.

That is what Triton's client examples expect of `simple_dyna_sequence`: it shows that the sequence's
identity arrives as well as its flags.
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
        if control(request, "READY"):
            if control(request, "START"):
                value = value + np.int32(1)
            if control(request, "END"):
                identity = pb_utils.get_input_tensor_by_name(request, "CORRID").as_numpy()
                value = (value + identity.astype(np.int64)).astype(np.int32)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", value)])
