# mypy: ignore-errors
"""Takes as long as it is told: a batch sleeps for the longest wish in it. Says the batch's size."""

import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        wishes = [pb_utils.get_input_tensor_by_name(r, "sleep_ms").as_numpy() for r in requests]
        time.sleep(max(int(wish.max()) for wish in wishes) / 1e3)
        total = sum(len(wish) for wish in wishes)
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("batch_size", np.full_like(wish, total, dtype=np.uint32))]
            )
            for wish in wishes
        ]
