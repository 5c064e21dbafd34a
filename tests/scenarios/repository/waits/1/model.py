"""Waits until its call is cancelled (ASK 0), or says how many calls it has begun to wait with, and
the monotonic time in seconds at which it last saw one cancelled (ASK 1)."""

import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils

LOOK_S = 0.002
PATIENCE_S = 20.0
FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def initialize(self, args):
        self._begun = 0
        self._cancelled_s = 0.0

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            if pb_utils.get_input_tensor_by_name(request, "ASK").as_numpy()[0]:
                sender.send(self._state(), flags=FINAL)
                continue
            self._begun += 1
            threading.Thread(target=self._wait, args=(sender,), daemon=True).start()

    def _state(self):
        state = np.array([self._begun, self._cancelled_s], dtype=np.float64)
        return pb_utils.InferenceResponse([pb_utils.Tensor("STATE", state)])

    def _wait(self, sender):
        end_s = time.monotonic() + PATIENCE_S
        while not sender.is_cancelled() and time.monotonic() < end_s:
            time.sleep(LOOK_S)
        if sender.is_cancelled():
            self._cancelled_s = time.monotonic()
        sender.send(self._state(), flags=FINAL)
