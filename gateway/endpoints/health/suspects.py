"""Whose failures speak against an endpoint, and whose only against the calls that met them.

A prompt that a provider's filter trips over, or that kills what serves it, fails whenever it is
sent, and so may all that one caller sends. Failures that a call may have provoked count once for
each content, and against the endpoint only where several callers met them; those of one caller
alone leave the endpoint out for that caller, as a breaker of its own (BEHAVIOURS A6).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.core.deadline import Clock
from gateway.core.types import DocumentCall, InferenceRequest
from gateway.endpoints.health.breaker import Breaker, unwatched
from gateway.protocols import strictjson

_MOST_CALLERS = 256
_MOST_CONTENTS = 64  # of failed calls that are known again, by caller
_FORGOTTEN_S = 600.0  # after its last failure
_SEVERAL = 3  # failures in a row, of which one caller's count twice at the most


@dataclass(slots=True)
class Suspect:
    """A caller whose calls failed here."""

    breaker: Breaker
    contents: dict[int, None] = field(default_factory=dict)  # digests, in the order of failing
    failed_s: float = 0.0
    opened_s: float = 0.0


class Suspects:
    """Of one model on one endpoint, by tenant."""

    __slots__ = ("_callers", "_changed", "_clock", "_row", "suspended")

    def __init__(self, clock: Clock, changed: Callable[[], None] = unwatched) -> None:
        """`changed` is called when there is another caller, or one less."""
        self._clock, self._changed = clock, changed
        self._callers: dict[str, Suspect] = {}
        self._row: dict[str, int] = {}  # failures since the last answer, by tenant
        self.suspended = 0
        """Callers for whom the endpoint is out."""

    def __bool__(self) -> bool:
        return bool(self._callers)

    def failed(self, request: InferenceRequest, sent_s: float, *, few: bool = False) -> bool:
        """A call failed that was sent at `sent_s`. True where that speaks against the endpoint for
        everybody. `few`: two callers are enough."""
        suspect, now_s = self._suspect(request.tenant), self._clock()
        if sent_s < suspect.opened_s:
            return False
        content = digest(request)
        if content in suspect.contents and suspect.breaker.closed:  # guard: A6.prompt-dedup
            return False
        self._remember(suspect, content)
        self._row[request.tenant] = self._row.get(request.tenant, 0) + 1
        breaker = suspect.breaker
        if breaker.failed(breaker.epoch):
            suspect.opened_s = now_s
            self.suspended += 1
        elif not breaker.closed:
            suspect.opened_s = now_s
        return self._several(few)

    def met(self, request: InferenceRequest, sent_s: float) -> bool:
        """The same where a canary judges: nobody is left out for it."""
        suspect, content = self._suspect(request.tenant), digest(request)
        if content in suspect.contents:
            return False
        self._remember(suspect, content)
        self._row[request.tenant] = self._row.get(request.tenant, 0) + 1
        return self._several(few=False)

    def succeeded(self, tenant: str) -> None:
        """A call of its was answered."""
        self._row.clear()
        suspect = self._callers.get(tenant)
        if suspect is None:
            return
        was_closed = suspect.breaker.closed
        suspect.breaker.succeeded(suspect.breaker.epoch)
        if suspect.breaker.closed and not was_closed:
            self.suspended -= 1
            suspect.breaker.recent.clear()
        if suspect.breaker.closed and not any(suspect.breaker.recent):
            del self._callers[tenant]
            self._changed()  # guard: S11.suspects-change

    def refuses(self, tenant: str) -> bool:
        """Whether the endpoint is out for this caller."""
        suspect = self._callers.get(tenant)
        return suspect is not None and not suspect.breaker.admits()

    def out_for_s(self, tenant: str) -> float:
        """Seconds until it may be tried for this caller."""
        suspect = self._callers.get(tenant)
        if suspect is None or suspect.breaker.closed:
            return 0.0
        return max(0.0, suspect.breaker.open_until_s - self._clock())

    def starts(self, tenant: str) -> None:
        """A call goes there: the one that finds out whether it is back for this caller."""
        if (suspect := self._callers.get(tenant)) is not None:
            suspect.breaker.starts()

    def abandoned(self, tenant: str) -> None:
        """A call ended without telling anything."""
        if (suspect := self._callers.get(tenant)) is not None:
            suspect.breaker.abandoned(suspect.breaker.epoch)

    def forget(self) -> None:
        """The endpoint is back, or out for everybody: it is judged anew."""
        self._callers.clear()
        self._row.clear()
        self.suspended = 0
        self._changed()  # guard: S11.suspects-change

    def forget_old(self) -> None:
        """Those who have not failed for long, and whose time is over."""
        now_s = self._clock()
        for tenant, suspect in tuple(self._callers.items()):
            if now_s - suspect.failed_s > _FORGOTTEN_S and suspect.breaker.dwelt:
                self._drop(tenant)

    def _suspect(self, tenant: str) -> Suspect:
        self.forget_old()
        suspect = self._callers.get(tenant)
        if suspect is None:
            if len(self._callers) >= _MOST_CALLERS:
                self._drop(next(iter(self._callers)))
            suspect = self._callers[tenant] = Suspect(Breaker(self._clock))
            self._changed()  # guard: S11.suspects-change
        return suspect

    def _remember(self, suspect: Suspect, content: int) -> None:
        suspect.failed_s = self._clock()
        suspect.contents[content] = None
        if len(suspect.contents) > _MOST_CONTENTS:
            del suspect.contents[next(iter(suspect.contents))]

    def _drop(self, tenant: str) -> None:
        suspect = self._callers.pop(tenant)
        self._row.pop(tenant, None)
        self.suspended -= not suspect.breaker.closed
        self._changed()  # guard: S11.suspects-change

    def _several(self, few: bool) -> bool:
        if self.suspended > 1:
            return True
        if len(self._row) < 2:
            return False
        # guard: A6.caller-quorum -> return False and sum((min(failures, 2) for failures in
        #   self._row.values())) >= _SEVERAL
        return few or sum(min(failures, 2) for failures in self._row.values()) >= _SEVERAL


def digest(request: InferenceRequest) -> int:
    """Of what the call holds; nothing of that can be read from it."""
    call = request.payload
    if isinstance(call, DocumentCall):
        return hash((call.operation, strictjson.dumps(call.document), call.files))
    return hash(tuple((t.name, t.shape, bytes(t.data)) for t in call.inputs))
