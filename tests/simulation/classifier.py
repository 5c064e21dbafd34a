"""Who looks at the calls, behind the port that the real classifier implements.

By plan a look is late, fails, or overruns every limit; some names are found at the door only.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gateway.core.types import Classification, InferenceRequest, Sensitivity, Zone
from tests.simulation.endpoints import number_of
from tests.simulation.plan import CLASS, CLASSES, FIRST_CLASS, CallPlan, Look
from tests.simulation.witness import Witness

_OVERRUN_S = 0.5


class SimulatedClassifier:
    def __init__(self, witness: Witness, narrowed: bool = False) -> None:
        """`narrowed`: by settings whose class `personal` admits no zone outside."""
        self._witness = witness
        self._narrowed = narrowed

    def classify_now(self, request: InferenceRequest) -> None:
        """There is always something to wait for."""

    async def classify(self, request: InferenceRequest) -> Classification:
        plan = self._witness.calls[number_of(request)].plan
        why = await self._look(request, plan, plan.first)
        return self._verdict(request, why, FIRST_CLASS[plan.secret])

    async def complete(
        self, request: InferenceRequest, classification: Classification
    ) -> Classification:
        story = self._witness.calls[number_of(request)]
        why = await self._look(request, story.plan, story.plan.door)
        found = self._verdict(request, why, CLASS[story.plan.secret])
        story.cleared = found.admitted & classification.admitted
        self._witness.decisions("looked", story.plan.number, why)
        return replace(found, complete=why is None, admitted=story.cleared)

    def _verdict(self, request: InferenceRequest, why: str | None, name: str) -> Classification:
        if why is None and name == "clear":
            return Classification(request.id, Sensitivity.CLEAR, "clear", admitted=CLASSES[name])
        if why is not None or name == "restricted":
            counts = {} if why else {"PERSON": 1}
            return Classification(
                request.id, Sensitivity.RESTRICTED, why or "entities", counts, complete=bool(counts)
            )
        zones = frozenset[Zone]() if self._narrowed and name == "personal" else CLASSES[name]
        return Classification(
            request.id, Sensitivity.RESTRICTED, "entities", {"PERSON": 1}, data_class=name,
            admitted=zones,
        )  # fmt: skip

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
