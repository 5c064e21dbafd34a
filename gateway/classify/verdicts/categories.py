"""Whether a call that would leave is of one of the operator's categories."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from gateway.classify import NoScan
from gateway.classify.categories import PREFIX
from gateway.classify.categories.reader import CategoryReader
from gateway.classify.conversations.memory import Scope, SegmentMemory
from gateway.classify.profile import Profile
from gateway.classify.verdicts.budget import ReadingBudget
from gateway.classify.verdicts.names import NameVerdicts
from gateway.classify.verdicts.patterns import NOTHING, Verdict
from gateway.classify.verdicts.policies import CallerPolicy
from gateway.config import ClassifySettings
from gateway.core.types import Finding, InferenceRequest

UNREAD = "_unread"  # no category has such a name
"""Counted in the place of a label where the categories, none of which restricts, were not read."""
_DETECTOR = "categories"  # where verdicts are remembered


class CategoryVerdicts:
    """Behind the names, which cost less: a call that these restrict is read no further."""

    def __init__(
        self,
        settings: ClassifySettings,
        reader: CategoryReader,
        names: NameVerdicts | None,
        segments: SegmentMemory,
        budget: ReadingBudget,
    ) -> None:
        self._reader = reader
        self._names = names
        self._segments = segments
        self._budget = budget
        restricting = [n for n, its in settings.categories.items() if its.action == "restrict"]
        self._types = [PREFIX + name for name in restricting]

    async def find(
        self,
        request: InferenceRequest,
        policy: CallerPolicy,
        texts: Sequence[str],
        started_s: float,
    ) -> Verdict:
        """Of all that is read of a call. Raises NoScan."""
        names = NOTHING
        if self._names is not None and policy.has_names:
            reason, names = await self._names.find(request, policy, texts, started_s)
            if reason != "clear":
                return reason, names

        async def scan(some: Sequence[str]) -> list[list[Finding]]:
            def work(left_s: float) -> Awaitable[list[list[Finding]]]:
                return self._reader.find(some, left_s)

            return await self._budget.read(request, started_s, sum(map(len, some)), work)

        scope = Scope(request.tenant, policy.version, _DETECTOR)
        types = [t for t in self._types if t not in policy.excluded]
        profile = Profile(_DETECTOR, frozenset(types), 0.0)
        try:
            restricted, counts = await self._segments.scan(scope, texts, scan, profile)
        except NoScan:
            if types:  # guard: C21.unread-restricts
                raise
            restricted, counts = False, {PREFIX + UNREAD: 1}
        reason = next(t for t in types if t in counts) if restricted else "clear"
        return reason, {**names, **counts}
