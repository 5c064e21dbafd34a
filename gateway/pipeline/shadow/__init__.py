"""Policies that are asked about every live call and decide none (BEHAVIOURS O4).

A shadow decides by the live function over the live snapshot, and keeps queues of its own in front
of servers that are not there, so that it meets what its earlier decisions led to. What it may know
of the gateway are `LearnedFigures`, `CandidatesView` and `ConditionsView`: figures and nothing that
a call could be sent to, or queued in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from gateway.core.types import InferenceRequest
from gateway.scheduling.calls import QueuedCall
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.estimates.latency import Tail
from gateway.scheduling.executions import Key, Layout
from gateway.scheduling.queue import QueueConditions
from gateway.scheduling.queued_calls import CloudCandidate, Weights
from gateway.scheduling.routing.work import CallSize


class LayoutView(Protocol):
    """What a queue has in front of it."""

    def layout(self, key: Key) -> Layout: ...


class TurnsView(Protocol):
    """Whether the models of a server execute one batch at a time."""

    def takes_turns(self, server: str) -> bool: ...


class CallsView(Protocol):
    """What the scheduler is told of a call."""

    def size(self, request: InferenceRequest) -> CallSize: ...
    def tail(self, endpoint: str, model: str, work: float) -> Tail: ...
    def weighed(
        self,
        request: InferenceRequest,
        size: CallSize,
        restricted: bool,
        clouds: Iterable[CloudCandidate],
        weights: Weights,
        avoid: frozenset[str],
    ) -> QueuedCall: ...


class LearnedFigures(Protocol):
    """What the live queues have learnt."""

    @property
    def changes(self) -> int: ...
    @property
    def executions(self) -> LayoutView: ...
    @property
    def gpus(self) -> TurnsView: ...
    @property
    def calls(self) -> CallsView: ...
    def batch_model(self, key: Key, server: str) -> BatchModel: ...


class CandidatesView(Protocol):
    """Which servers a call queues for."""

    def server_group(self, request: InferenceRequest) -> tuple[str, ...]: ...


class ConditionsView(Protocol):
    """What the servers and the cloud take now."""

    def read(self, model: str, servers: tuple[str, ...]) -> QueueConditions: ...
    def cloud_capacity(self, model: str) -> Mapping[str, int]: ...
