"""The test model that waits, and what it has seen."""

from __future__ import annotations

import struct
from typing import Any

from tritonclient.grpc import service_pb2

from tests.live import wait_until
from tests.scenarios.both_ways import BothWays, infer_message

_PATIENCE_S = 15


def ask(value: int) -> Any:
    """0: wait until you are cancelled; 1: say what you have seen."""
    return infer_message("waits", {"ASK": ("INT32", [1], struct.pack("<i", value))})


class Waits:
    """Asks the model at Triton itself, whatever the gateway makes of it."""

    def __init__(self, ways: BothWays) -> None:
        self._direct = ways.direct
        # An answer by way of the gateway: it takes out a model whose calls end late one by one.
        wait_until(lambda: isinstance(ways.through.unary(ask(1)), bytes), _PATIENCE_S)

    def begun(self) -> float:
        return self._state()[0]

    def has_begun(self, before: float) -> None:
        wait_until(lambda: self.begun() > before, _PATIENCE_S)

    def was_cancelled(self, since_s: float) -> float:
        """When, as a monotonic time of this machine."""
        wait_until(lambda: self._state()[1] >= since_s, _PATIENCE_S)
        return self._state()[1]

    def _state(self) -> tuple[float, float]:
        raw = self._direct.unary(ask(1))
        assert isinstance(raw, bytes), raw
        contents = service_pb2.ModelInferResponse.FromString(raw).raw_output_contents[0]
        begun, cancelled_s = struct.unpack("<2d", contents)
        return begun, cancelled_s
