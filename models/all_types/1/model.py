"""Returns each tensor that it is given, for every datatype that Triton has."""

import triton_python_backend_utils as pb_utils


def copied(tensor):
    name = tensor.name().replace("INPUT_", "OUTPUT_", 1)
    if name == "OUTPUT_BF16":  # which numpy does not have
        return pb_utils.Tensor.from_dlpack(name, tensor.to_dlpack())
    return pb_utils.Tensor(name, tensor.as_numpy())


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([copied(tensor) for tensor in request.inputs()])
            for request in requests
        ]
