"""Whether the names in a call restrict it."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from gateway.classify.conversations.memory import Scope, SegmentMemory
from gateway.classify.names import PERSON, Names
from gateway.classify.names.forms import find_in_all_forms
from gateway.classify.names.records import across
from gateway.classify.verdicts.budget import ReadingBudget
from gateway.classify.verdicts.patterns import Verdict
from gateway.classify.verdicts.policies import CallerPolicy
from gateway.core.types import Finding, InferenceRequest

_DETECTOR = "names"  # where verdicts are remembered


class NameVerdicts:
    def __init__(
        self, names: Names, segments: SegmentMemory, budget: ReadingBudget, allowed: Sequence[str]
    ) -> None:
        """`allowed`: names that do not restrict."""
        self._names = names
        self._segments = segments
        self._budget = budget
        self._allowed = allowed

    async def find(
        self,
        request: InferenceRequest,
        policy: CallerPolicy,
        texts: Sequence[str],
        started_s: float,
    ) -> Verdict:
        """Of all that is read of a call, up to the first finding that restricts. Raises NoScan."""
        names, allowed, profile = self._names, self._allowed, policy.profile

        def restricts(text: str, finding: Finding) -> bool:
            written = text[finding.start : finding.end]
            # guard: C19.allowed-names minus 2
            return profile.restricts([finding]) and written not in allowed

        async def scan(some: Sequence[str]) -> list[list[Finding]]:
            def work(left_s: float) -> Awaitable[list[list[Finding]]]:
                return find_in_all_forms(
                    *(names, some, left_s, allowed),
                    records=False,
                    lone=profile.lone_names,
                    enough=restricts,
                )

            return await self._budget.read(request, started_s, sum(map(len, some)), work)

        scope = Scope(request.tenant, policy.version, _DETECTOR)
        restricted, counts = await self._segments.scan(scope, texts, scan, profile)
        if restricted:
            return "entities", counts
        record = across.CallRecord(request.payload, texts)
        left_s = self._budget.left_s(request, started_s, record.size)
        people = await across.people_findings(names, record, left_s, allowed)
        if profile.restricts(people):
            return "entities", {PERSON: len(people)}
        # guard: C19.lone-nearby
        if not profile.lone_names and PERSON in profile.types:
            left_s = self._budget.left_s(request, started_s, record.size)
            people = await across.lone_people(names, record, left_s, allowed)
            restricted = profile.restricts(people)
        return ("entities" if restricted else "clear"), counts
