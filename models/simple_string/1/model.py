"""Sum and difference of decimal numbers written as text, as Triton's client examples expect."""

import numpy as np
import triton_python_backend_utils as pb_utils


def numbers(request, name):
    texts = pb_utils.get_input_tensor_by_name(request, name).as_numpy()
    return np.array([int(text) for text in texts.ravel()], dtype=object).reshape(texts.shape)


def texts(values):
    return np.array([b"%d" % value for value in values.ravel()], dtype=object).reshape(values.shape)


class TritonPythonModel:
    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        try:
            left, right = numbers(request, "INPUT0"), numbers(request, "INPUT1")
        except ValueError:
            # Python's own message would quote the value, and errors end up in logs.
            error = pb_utils.TritonError("every element must be a decimal number written as text")
            return pb_utils.InferenceResponse(error=error)
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("OUTPUT0", texts(left + right)),
                pb_utils.Tensor("OUTPUT1", texts(left - right)),
            ]
        )
