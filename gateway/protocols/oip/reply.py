"""One answer of the protocol, freed from its wire form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.core.types import Parameter, Tensor


@dataclass(frozen=True, slots=True)
class TensorReply:
    model: str
    version: str
    outputs: tuple[Tensor, ...] = field(repr=False)
    id: str = field(default="", repr=False)
    parameters: Mapping[str, Parameter] = field(default_factory=dict, repr=False)
