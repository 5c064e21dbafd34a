"""Inference on tensors, by the Open Inference Protocol."""

from __future__ import annotations

from typing import Final

from gateway.core.operations.spec import OperationSpec

INFER: Final = OperationSpec(name="infer", task="infer", writes=True)
