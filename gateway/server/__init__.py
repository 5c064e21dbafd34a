"""Fronts: how a protocol's calls become requests, and replies its answers.

Every front works on the same `Services`. It builds an `InferenceRequest` with `intake`, hands it to
`Services.handle`, renders the frames, and closes them on every exit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from gateway.auth import Callers
from gateway.config import LimitSettings
from gateway.config.model_catalog import Catalog
from gateway.config.zones import Zones
from gateway.core import ambient
from gateway.core.aliases import Aliases
from gateway.core.deadline import Clock
from gateway.core.held_bytes import HeldBytes
from gateway.core.reply import InferenceReply
from gateway.core.trace_context import ALL, Sampler, Untraced
from gateway.core.types import InferenceRequest
from gateway.endpoints.connectors import Inspector
from gateway.server.hosts import AllowedHosts


class Inspection(Protocol):
    """Finds the server whose metadata answers for a model, or for the gateway itself."""

    def server_inspector(self) -> Inspector:
        """An on-prem Open Inference Protocol server; raises NoEligibleEndpoint if there is none."""
        ...

    def model_inspector(self, model: str) -> tuple[Inspector, str]:
        """The server that answers for a catalog model, and the model's name there."""
        ...

    def live(self) -> bool: ...
    def ready(self) -> bool: ...
    def onprem_up(self) -> bool:
        """Whether restricted calls have a place."""
        ...

    def model_ready(self, model: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Services:
    """What the composition root gives to every front."""

    handle: Callable[[InferenceRequest], Awaitable[InferenceReply]]
    callers: Callers
    catalog: Catalog
    inspection: Inspection
    limits: LimitSettings
    new_id: Callable[[], str]
    clock: Clock
    sampler: Sampler = ALL
    """Which calls are told to be traced; without a collector the answer alone says so."""
    new_trace: Callable[[str, str, float], Untraced] | None = None
    """Of a call that is sampled: its traceparent, the caller's span, its arrival. None: nobody
    collects them."""
    on_error: Callable[[str, str], None] = lambda protocol, reason: None
    """Counts an error that a caller is told: its protocol and reason, both of closed sets."""
    aliases: Aliases = field(default_factory=lambda: Aliases(ambient.random_bytes(32)))
    """What is recorded in the place of ids that callers give."""
    held_bytes: HeldBytes = field(default_factory=lambda: HeldBytes(LimitSettings().max_held_bytes))
    """The budget of this process for bodies that have not come whole, and for inflating them."""
    held_answers: HeldBytes = field(
        default_factory=lambda: HeldBytes(LimitSettings().max_held_answer_bytes)
    )
    """The budget of this process for endpoints' answers until their callers have taken them."""
    zones: Zones = field(default_factory=Zones)
    classes: frozenset[str] = frozenset()
    """Of data, between clear and restricted."""
    hosts: AllowedHosts | None = None
    """The names that it answers to. None: whatever a head calls it."""
    held: AbstractContextManager[object] = field(default_factory=nullcontext)
    """Entered by each call, by many at once, while it needs these services and waits for anything
    but `handle`, which knows its calls: others may follow meanwhile."""
