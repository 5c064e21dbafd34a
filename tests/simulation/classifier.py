"""Who looks at the calls, behind the port that the real classifier implements.

By plan a look is late, fails, or overruns every limit; some names are found at the door only.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gateway.core.types import Classification, InferenceRequest, Sensitivity
from tests.simulation.endpoints import number_of
from tests.simulation.plan import CallPlan, Look, Secret
from tests.simulation.witness import Witness

_OVERRUN_S = 0.5


class SimulatedClassifier:
    def __init__(self, witness: Witness) -> None:
        self._witness = witness

    def classify_now(self, request: InferenceRequest) -> None:
        """There is always something to wait for."""

    async def classify(self, request: InferenceRequest) -> Classification:
        plan = self._witness.calls[number_of(request)].plan
        why = await self._look(request, plan, plan.first)
        if why is None and plan.secret is Secret.NUMBER:
            why = "entities"
        return _verdict(request, why)

    async def complete(
        self, request: InferenceRequest, classification: Classification
    ) -> Classification:
        story = self._witness.calls[number_of(request)]
        why = await self._look(request, story.plan, story.plan.door)
        if why is None and story.plan.secret is Secret.NAME:
            why = "entities"
        story.cleared = why is None and not classification.restricted
        self._witness.decisions("looked", story.plan.number, why)
        return replace(_verdict(request, why), complete=why in (None, "entities"))

    async def _look(self, request: InferenceRequest, plan: CallPlan, how: Look) -> str | None:
        """Why the call is restricted, if the look itself says so."""
        left_s = max(0.0, request.deadline.remaining_s())
        if how is Look.LATE:
            await asyncio.sleep(left_s)
            return "late"
        if how is Look.OVERRUNS:
            await asyncio.sleep(left_s + _OVERRUN_S)
            return None
        if plan.look_s:
            await asyncio.sleep(plan.look_s)
        return "failed" if how is Look.FAILS else None


def _verdict(request: InferenceRequest, why: str | None) -> Classification:
    if why is None:
        return Classification(request.id, Sensitivity.CLEAR, "clear")
    counts = {"PERSON": 1} if why == "entities" else {}
    return Classification(request.id, Sensitivity.RESTRICTED, why, counts, complete=bool(counts))
