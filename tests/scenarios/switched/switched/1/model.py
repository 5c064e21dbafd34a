# mypy: ignore-errors
"""Adds and subtracts, as switch.json beside the models says: {"delay_s", "fails", "hangs"}."""

import json
import time
from pathlib import Path

import triton_python_backend_utils as pb_utils

LOOK_S = 0.02


class TritonPythonModel:
    def initialize(self, args):
        self._switch = Path(args["model_repository"]).parent / "switch.json"

    def _state(self):
        return json.loads(self._switch.read_text())

    def execute(self, requests):
        state = self._state()
        time.sleep(state.get("delay_s", 0))
        while self._state().get("hangs"):
            time.sleep(LOOK_S)
        return [self._answer(request, state) for request in requests]

    def _answer(self, request, state):
        if state.get("fails"):
            return pb_utils.InferenceResponse([], pb_utils.TritonError("the device is lost"))
        left, right = (
            pb_utils.get_input_tensor_by_name(request, name).as_numpy()
            for name in ("INPUT0", "INPUT1")
        )
        found = {"OUTPUT0": left + right, "OUTPUT1": left - right}
        return pb_utils.InferenceResponse([pb_utils.Tensor(n, v) for n, v in found.items()])
