"""Answers once for every element of IN, DELAY milliseconds apart: Triton's decoupled example.

WAIT is how long the model stays busy before it takes the next request; the answers go on meanwhile.
"""

import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils


def element(name, values, index):
    return pb_utils.Tensor(name, values[index : index + 1])


def send(sender, values, delays_ms):
    indices = np.arange(len(values), dtype=np.uint32)
    for index in range(len(values)):
        time.sleep(int(delays_ms[index]) / 1e3)
        if sender.is_cancelled():
            break
        answer = [element("OUT", values, index), element("IDX", indices, index)]
        sender.send(pb_utils.InferenceResponse(answer))
    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


class TritonPythonModel:
    def initialize(self, args):
        self._running = set()

    def execute(self, requests):
        for request in requests:
            self._start(request)
        self._running = {thread for thread in self._running if thread.is_alive()}

    def _start(self, request):
        sender = request.get_response_sender()
        # Copies: the request's memory goes back to Triton when execute returns.
        values = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy().copy()
        delays_ms = pb_utils.get_input_tensor_by_name(request, "DELAY").as_numpy().copy()
        wait_ms = pb_utils.get_input_tensor_by_name(request, "WAIT").as_numpy()[0]
        if len(values) != len(delays_ms):
            error = pb_utils.TritonError("IN and DELAY must have the same number of elements")
            sender.send(
                pb_utils.InferenceResponse(error=error),
                flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL,
            )
            return
        thread = threading.Thread(target=send, args=(sender, values, delays_ms), daemon=True)
        self._running.add(thread)
        thread.start()
        time.sleep(int(wait_ms) / 1e3)

    def finalize(self):
        for thread in self._running:
            thread.join()
