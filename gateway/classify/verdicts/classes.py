"""Which classes between clear and restricted a call falls in.

A reading stops at the first finding that restricts, which says one class of the call at most. So
before a call of a class leaves, it is read once more for what is in none of its classes, until
nothing else is left: then these are all. What is found on the way adds classes, and takes zones.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from gateway.classify import ScanFailed
from gateway.classify.categories import PREFIX
from gateway.classify.conversations.taint import LABELLED, Taint
from gateway.classify.verdicts.patterns import Verdict
from gateway.classify.verdicts.policies import CallerPolicies, CallerPolicy
from gateway.config import ClassifySettings
from gateway.config.zones.admission import DataClasses
from gateway.core.process import logs
from gateway.core.types import PUBLIC_MODEL, Classification, InferenceRequest, Sensitivity, Zone

log = logging.getLogger(__name__)

NO_CLASSES: Final[frozenset[str]] = frozenset()


class ClassVerdicts:
    def __init__(
        self,
        classes: DataClasses,
        settings: ClassifySettings,
        policies: CallerPolicies,
        taint: Taint,
    ) -> None:
        self.clear = classes.clear
        """The zones outside the premises that a clear call is admitted to."""
        self.some = frozenset(classes.admitted)
        """The classes between clear and restricted; most settings have none."""
        self._classes = classes
        self._policies = policies
        self._taint = taint
        self._categories = frozenset(
            f"{PREFIX}{name}"
            for name, its in settings.categories.items()
            if its.action == "restrict"
        )

    async def grade(
        self,
        request: InferenceRequest,
        reason: str,
        counts: Mapping[str, int],
        read: Callable[[CallerPolicy], Awaitable[Verdict]],
    ) -> tuple[str, Mapping[str, int], frozenset[str]]:
        """Read the call by one policy after another, until nothing is left that is in none of its
        classes: the reason, what was counted, and its classes. None of these: it is clear, or
        restricted."""
        first, classes = reason, self.derive(request, reason, counts)
        while classes and reason != "clear":
            reason, more = await read(self.beyond(request, classes))
            counts = {**counts, **more}
            if reason == "clear":
                return first, counts, classes
            further = self.derive(request, reason, more)
            if further is None or further <= classes:
                return reason, counts, NO_CLASSES
            classes |= further
        if reason == "clear" and classes is None:
            reason = ScanFailed.reason
        return reason, counts, classes or NO_CLASSES

    def derive(
        self, request: InferenceRequest, reason: str, counts: Mapping[str, int]
    ) -> frozenset[str] | None:
        """By what was found, and what is said of the call. None: it is restricted, since nothing
        tells its classes."""
        try:
            return self._derived(request, reason, counts)
        except Exception as failure:  # noqa: BLE001 - whatever goes wrong here, the call stays on the premises
            failed(request, failure)
            return None

    def _derived(
        self, request: InferenceRequest, reason: str, counts: Mapping[str, int]
    ) -> frozenset[str] | None:
        classes: frozenset[str] | None = NO_CLASSES
        if reason == "entities" or reason in self._categories:
            types = self._policies.find(request.tightening).profile.types
            classes = self._classes.by_findings(counts, types | self._categories)
        elif reason not in ("clear", PUBLIC_MODEL):
            return None  # guard: M7.unread -> classes = NO_CLASSES
        if classes is None:
            return None
        # guard: M7.masked-conversation
        if request.pseudonymise and self._taint.leaves_masked_alone(request, self.some):
            return None if classes else NO_CLASSES
        # guard: M7.conversation-class -> return classes | request.labels
        return classes | request.labels | self._taint.classes(request, self.some)

    def beyond(self, request: InferenceRequest, classes: frozenset[str]) -> CallerPolicy:
        """What restricts the caller's calls but for what puts them in these classes alone."""
        # guard: M7.shared-type its <= classes -> its & classes
        types = [kind for kind, its in self._classes.by_type.items() if its <= classes]
        return self._policies.without(request.tightening, frozenset(types))

    def graded(
        self,
        request: InferenceRequest,
        classes: frozenset[str],
        reason: str,
        counts: Mapping[str, int],
        took_s: float,
        complete: bool,
        within: frozenset[Zone] | None = None,
    ) -> Classification:
        """The verdict of a call of these classes. `within`: where it was admitted before."""
        name, zones = self._classes.admission(classes)
        return Classification(
            request.id,
            Sensitivity.RESTRICTED,
            LABELLED if reason == "clear" else reason,
            counts,
            took_s,
            complete,
            data_class=name,
            admitted=zones if within is None else zones & within,
        )


def failed(request: InferenceRequest, failure: Exception) -> str:
    """The reason of a verdict that met an error, which is logged without what it says."""
    fields = logs.call_fields(request.record_id, request.record_trace)
    log.error("classifying failed: %s", type(failure).__name__, extra=fields)
    return ScanFailed.reason
