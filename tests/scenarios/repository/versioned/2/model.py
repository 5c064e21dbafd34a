"""Says which version of itself answered."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self._version = np.array([int(args["model_version"])], dtype=np.int32)

    def execute(self, requests):
        tensor = pb_utils.Tensor("VERSION", self._version)
        return [pb_utils.InferenceResponse([tensor]) for _ in requests]
