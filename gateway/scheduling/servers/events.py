"""What every scheduler does when something of its servers changes: it is noted, and decided on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from gateway.scheduling.calls import Action, QueuedCall
from gateway.scheduling.servers.group import Servers


class GroupEvents(ABC):
    """A part of a `Scheduling`."""

    servers: Servers

    @abstractmethod
    def _decide(self, now_s: float) -> list[Action]:
        """What is to be done now."""

    @abstractmethod
    def _join(self, call: QueuedCall, now_s: float) -> None:
        """The call waits from now on."""

    def ended(self, call_id: int | str, answered: bool, now_s: float) -> list[Action]:
        """A released call ended. One that was not answered says nothing of its batch's time: bring
        it back with `arrive` if it is to be tried again."""
        return self._decide(now_s) if self.servers.ended(call_id, now_s, answered) else []

    def tick(self, now_s: float) -> list[Action]:
        """The time is `wake_s`, or something outside has changed (`limits`)."""
        return self._decide(now_s)

    def mark_up(self, name: str, up: bool, now_s: float) -> list[Action]:
        """A server that is down gets no more batches. Calls that it has stay its own until they are
        told of."""
        self.servers.mark_up(name, up)
        return self._decide(now_s)

    def limit(self, name: str, calls: float, now_s: float) -> list[Action]:
        """At most so many calls are with that server at once; inf: as many as two batches hold."""
        self.servers.limit(name, calls)
        return self._decide(now_s)

    def grow(self, name: str, instances: int, now_s: float) -> list[Action]:
        """So many of a server's instances execute batches side by side. It only grows."""
        self.servers.grow(name, instances)
        return self._decide(now_s)

    def take_over(
        self, sent: Iterable[tuple[str, QueuedCall]], waiting: Iterable[QueuedCall], now_s: float
    ) -> list[Action]:
        """The calls of another that decided until now: those with a server, and those that wait."""
        for name, call in sent:
            self.servers.adopt(name, call, now_s)
        for call in tuple(waiting):
            self._join(call, now_s)
        return self._decide(now_s)
