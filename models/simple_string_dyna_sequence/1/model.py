"""Sums a sequence; its last answer also has the correlation id, a number written as text, added.

That is what Triton's client examples expect of `simple_string_dyna_sequence`. It is the one model
here whose state lives between calls.
"""

from collections import OrderedDict

import numpy as np
import triton_python_backend_utils as pb_utils


def control(request, name):
    return bool(pb_utils.get_input_tensor_by_name(request, name).as_numpy().any())


# Triton does not tell a model that a sequence was abandoned, so the oldest sums are forgotten.
SEQUENCES_KEPT = 1024


class TritonPythonModel:
    def initialize(self, args):
        self._sums = OrderedDict()

    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        value = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
        if control(request, "READY"):
            try:
                value = self._advance(request, value, request.correlation_id())
            except ValueError:
                error = pb_utils.TritonError("the correlation id must be a number written as text")
                return pb_utils.InferenceResponse(error=error)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", value)])

    def _advance(self, request, value, identity):
        before = self._sums.pop(identity, None)
        if before is not None and not control(request, "START"):
            value = value + before
        if control(request, "END"):
            return (value + np.int64(int(identity))).astype(np.int32)
        self._sums[identity] = value
        if len(self._sums) > SEQUENCES_KEPT:
            self._sums.popitem(last=False)
        return value
