"""Adds and subtracts; answers after `fixed_ms + per_row_ms * rows`, whatever the machine does.

With the parameter `lock`, a file, it holds that meanwhile: models that name the same one execute in
turns, as on a GPU that is full with each of them.
"""

import contextlib
import fcntl
import json
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        told = json.loads(args["model_config"])["parameters"]
        self._fixed_s = float(told["fixed_ms"]["string_value"]) / 1000
        self._per_row_s = float(told["per_row_ms"]["string_value"]) / 1000
        self._lock = told["lock"]["string_value"] if "lock" in told else None

    @contextlib.contextmanager
    def _turn(self):
        if self._lock is None:
            yield
            return
        with open(self._lock, "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield  # closing it gives it back

    def execute(self, requests):
        with self._turn():
            return self._answers(requests)

    def _answers(self, requests):
        began_s = time.monotonic()
        rows, answers = 0, []
        for request in requests:
            left, right = (
                pb_utils.get_input_tensor_by_name(request, name).as_numpy()
                for name in ("INPUT0", "INPUT1")
            )
            rows += len(left)
            found = {"OUTPUT0": left + right, "OUTPUT1": left - right}
            answers.append(
                pb_utils.InferenceResponse([pb_utils.Tensor(n, v) for n, v in found.items()])
            )
        left_s = self._fixed_s + self._per_row_s * rows - (time.monotonic() - began_s)
        time.sleep(max(0.0, left_s))
        return answers
