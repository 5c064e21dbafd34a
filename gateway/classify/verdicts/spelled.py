"""What the numbers of a call's tensors may spell, read without holding up the event loop."""

from __future__ import annotations

import asyncio

from gateway.classify import ScanLate
from gateway.classify.verdicts.budget import ReadingBudget
from gateway.core import timeouts
from gateway.core.types import InferenceRequest, TensorCall

_AT_ONCE_BYTES = 16 * 1024
"""Of tensors, that are read at once; more is read in a thread."""


class SpelledTexts:
    def __init__(self, max_bytes: int, budget: ReadingBudget) -> None:
        self._max_bytes = max_bytes
        self._budget = budget
        self._is_loaded = False  # the module that reads them

    async def read(
        self, request: InferenceRequest, call: TensorCall, started_s: float
    ) -> list[str]:
        """Raises Unscannable, NoScan."""
        size = sum([len(tensor.data) for tensor in call.inputs])
        if self._is_loaded and size <= _AT_ONCE_BYTES:
            return _spelled_texts(call, self._max_bytes)
        left_s = max(0.0, self._budget.left_s(request, started_s, size))
        try:
            with timeouts.within(left_s):
                spelled = await asyncio.to_thread(_spelled_texts, call, self._max_bytes)
        except TimeoutError:
            raise ScanLate("the tensors were not read in time") from None
        self._is_loaded = True
        return spelled


def _spelled_texts(call: TensorCall, max_bytes: int) -> list[str]:
    # a tenth of a second; few calls need it
    from gateway.classify.tensor_inputs.tensors import spelled_texts

    return spelled_texts(call, max_bytes)
