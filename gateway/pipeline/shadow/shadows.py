"""All shadows of a gateway: what the pipeline tells, and what operators are told.

The live decision is made and acted on before any shadow is asked: in the next step of the loop, or
when the record is written if that comes first. A shadow that has much to catch up with does so in
slices, between which calls have their turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gateway.accounting.metrics import Metrics
from gateway.core.deadline import Clock
from gateway.core.types import Classification, EndpointSnapshot, InferenceRequest
from gateway.pipeline.call_account import CallAccount
from gateway.pipeline.shadow import CandidatesView, ConditionsView, LearnedFigures
from gateway.pipeline.shadow.comparison import DecisionInputs, ShadowedCall, ShadowTally
from gateway.pipeline.shadow.shadow import Facts, Rules, Shadow

_BREATH_S: Final = 0.002  # between two slices


class Shadows:
    def __init__(
        self,
        rules: Mapping[str, Rules],
        figures: LearnedFigures,
        candidates: CandidatesView,
        conditions: ConditionsView,
        metrics: Metrics,
        share: float,
        clock: Clock,
    ) -> None:
        """`share` of the loop's time, for all of them together."""
        self._figures = figures
        self._candidates = candidates
        self._conditions = conditions
        self._metrics = metrics
        self._clock = clock
        self._tallies = {name: ShadowTally(name, metrics) for name in rules}
        self._shadows = [
            Shadow(its, figures, self._tallies[name], share / len(rules), clock)
            for name, its in rules.items()
        ]
        self._behind = False

    def see(
        self,
        request: InferenceRequest,
        classification: Classification,
        states: Sequence[EndpointSnapshot],
        account: CallAccount,
    ) -> None:
        """A live call that is about to be decided on over these states. Asks nobody yet."""
        shadowed = account.shadowed
        if not isinstance(shadowed, ShadowedCall):
            shadowed = account.shadowed = ShadowedCall(self._tallies, self._ask, self._forget)
        else:
            self._forget(shadowed)  # guard: O4.restricted-redecision -> return
        shadowed.sees(DecisionInputs(request, classification, tuple(states), self._clock()))
        # guard: O4.live-first -> self._ask(shadowed)
        asyncio.get_running_loop().call_soon(self._ask, shadowed)

    def foresee(
        self,
        request: InferenceRequest,
        classification: Classification,
        states: Sequence[EndpointSnapshot],
    ) -> dict[str, dict[str, str | None]]:
        """What each would make of a call at once; nothing of it is kept."""
        facts = self._lazy_facts(
            DecisionInputs(request, classification, tuple(states), self._clock())
        )
        decisions: dict[str, dict[str, str | None]] = {}
        for shadow in self._shadows:
            shadow.run()
            placing = shadow.foresee(facts)
            decisions[shadow.name] = {"zone": placing.zone or None, "reason": placing.reason}
        return decisions

    def _ask(self, shadowed: ShadowedCall) -> None:
        inputs, shadowed.inputs = shadowed.inputs, None
        if inputs is None:
            return
        facts = self._lazy_facts(inputs)
        caught_up = True
        for shadow in self._shadows:
            shadow.decide(shadowed, facts)
            caught_up &= shadow.run()
        if not caught_up:
            self._go_on_later()

    def _lazy_facts(self, inputs: DecisionInputs) -> Callable[[], Facts]:
        """Found out once, by the first shadow that needs them."""
        known: Facts | None = None

        def facts() -> Facts:
            nonlocal known
            if known is None:
                known = self._facts(inputs)
            return known

        return facts

    def _facts(self, inputs: DecisionInputs) -> Facts:
        request = inputs.request
        servers = self._candidates.server_group(request)
        return Facts(
            inputs=inputs,
            key=(request.model, servers),
            size=self._figures.calls.size(request),
            around=self._conditions.read(request.model, servers),
            capacity=self._conditions.cloud_capacity(request.model),
        )

    def _forget(self, shadowed: ShadowedCall) -> None:
        shadowed.inputs = None
        for shadow in self._shadows:
            shadow.forget(shadowed)

    def _go_on_later(self) -> None:
        if not self._behind:
            self._behind = True
            asyncio.get_running_loop().call_later(_BREATH_S, self._go_on)

    def _go_on(self) -> None:
        self._behind = False
        if not all([shadow.run() for shadow in self._shadows]):
            self._go_on_later()

    # For the operator

    def report(self) -> list[dict[str, object]]:
        """For /status."""
        return [shadow.tally.report() | {"waiting": shadow.waiting} for shadow in self._shadows]

    def publish(self) -> None:
        """Bring the gauges up to date; called when they are read."""
        self._metrics.shadow_waiting.clear()  # a world that began anew has fewer queues
        for shadow in self._shadows:
            shadow.run()
            for model, waiting in shadow.waiting.items():
                self._metrics.shadow_waiting.labels(shadow.name, model).set(waiting)
