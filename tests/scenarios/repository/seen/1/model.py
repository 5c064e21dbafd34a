"""Says what it sees of a call beside its tensors."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


def seen(request):
    return {
        "id": request.request_id(),
        "parameters": json.loads(request.parameters() or "{}"),
        "correlation_id": request.correlation_id(),
        "flags": request.flags(),
        "timeout_us": request.timeout(),
        "outputs": sorted(request.requested_output_names()),
    }


def answer(request):
    text = json.dumps(seen(request), sort_keys=True).encode()
    given = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
    tensors = {
        "SEEN": pb_utils.Tensor("SEEN", np.array([text], dtype=np.object_)),
        "OTHER": pb_utils.Tensor("OTHER", given),
    }
    wanted = request.requested_output_names()
    return pb_utils.InferenceResponse([t for name, t in tensors.items() if name in wanted])


class TritonPythonModel:
    def execute(self, requests):
        return [answer(request) for request in requests]
