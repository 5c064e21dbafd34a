"""One stream of events for everybody who looks: a picture, then what changes of it.

At most four times a second everything is looked at once, whoever many look, and what changed since
the last time goes to all of them. Nobody is waited for: who does not keep up is let go and comes
back, from where it was if that is not long ago (`Last-Event-ID`), else with a fresh picture. While
nobody looks there is no task and no timer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Protocol

from gateway.accounting.live.decisions import Decisions
from gateway.accounting.live.shares import TAIL, Document, Shares, alone, summaries
from gateway.core import ambient
from gateway.core.reply import Receiver, deliver_each
from gateway.protocols import strictjson

EVERY_S = 0.25
BEAT_TICKS = 4  # of silence, after which the page is told that there is nothing to tell
_AT_ONCE = 60  # decisions of one event; of more the newest
_BEHIND = 16  # events that one who looks may lag: four seconds
_REMEMBERED = 120  # events that who comes back may have missed: half a minute
_MOST = 64  # who look at once


class Sections(Protocol):
    def sections(self) -> dict[str, Any]: ...


class TooManyViewers(Exception):
    """Each costs memory and sockets, and calls go first."""


@dataclass(slots=True, eq=False)
class Viewer:
    """One who looks: the events that are still to be sent to it. None: it is let go."""

    queue: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(_BEHIND + 2))
    dropped: bool = False

    def put(self, event: bytes | None) -> None:
        with suppress(asyncio.QueueFull):
            self.queue.put_nowait(event)

    def behind(self) -> bool:
        return self.queue.qsize() >= _BEHIND


class Feed:
    def __init__(
        self,
        decisions: Decisions,
        sections: Sections,
        wall_s: Callable[[], float] = ambient.wall_s,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        shares: Shares | None = None,
        worker: int = 1,
    ) -> None:
        """`shares`: the parts of the other workers; `worker`: this one's number among them."""
        self._decisions = decisions
        self._sections = sections
        self._shares = alone() if shares is None else shares
        self._worker = worker
        self._wall_s = wall_s
        self._pause = pause
        self._epoch = ambient.random_hex(4)  # ids of another run are no place to go on from
        self._lookers: set[Viewer] = set()
        self._sent: dict[str, bytes] = {}  # sections as they were told last
        self._events: deque[tuple[int, bytes]] = deque(maxlen=_REMEMBERED)
        self._number = self._revision = self._quiet = 0
        self._task: asyncio.Task[None] | None = None
        self.dropped = 0

    @property
    def looking(self) -> int:
        return len(self._lookers)

    async def refresh(self) -> None:
        """Before somebody joins: while nobody looks, the other workers are asked for nothing."""
        if not self._lookers:
            await self._shares.refresh()

    def join(self, last_event_id: str = "") -> Viewer:
        """Raises TooManyLook."""
        if len(self._lookers) >= _MOST:  # guard: P4.viewer-limit
            raise TooManyViewers
        if not self._lookers:
            self._begin()
        looker = Viewer()
        missed = self._missed(last_event_id)
        looker.put(self._picture() if missed is None else missed)
        self._lookers.add(looker)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="console")
        return looker

    def leave(self, looker: Viewer) -> None:
        self._lookers.discard(looker)

    def close(self) -> None:
        """The gateway stops: streams end, so that it need not wait for them."""
        for looker in tuple(self._lookers):
            self._let_go(looker)
        if self._task is not None:
            self._task.cancel()
        self._shares.close()

    def tick(self) -> None:
        """Tell everybody what has changed since the last time."""
        changed = self._changed_sections()
        own = self._decisions.since(self._revision, _AT_ONCE)
        self._revision = self._decisions.revision
        decisions = summaries(own, self._worker) + self._shares.news()
        self._quiet += 1
        if changed or decisions:
            self._broadcast(_delta(changed, decisions, self._wall_s()))
        elif self._quiet >= BEAT_TICKS:  # guard: P4.heartbeat
            self._broadcast(_delta({}, [], self._wall_s()))

    async def _run(self) -> None:
        while self._lookers:  # guard: P4.idle-feed always
            await self._pause(EVERY_S)
            await self._shares.refresh()
            self.tick()

    def _begin(self) -> None:
        """Nobody looked: what is remembered has a gap, which nobody may go on over."""
        self._events.clear()
        self._number += 1  # guard: P4.feed-gap
        self._revision = self._decisions.snapshot().revision
        self._shares.news()
        self._sent = _serialised(self._sections.sections())

    def _changed_sections(self) -> dict[str, bytes]:
        now = _serialised(self._sections.sections())
        changed = {name: text for name, text in now.items() if self._sent.get(name) != text}
        self._sent = now
        return changed

    def _broadcast(self, data: bytes) -> None:
        self._number += 1
        self._quiet = 0
        event = _event("delta", self._id(), data)
        self._events.append((self._number, event))
        for looker in tuple(self._lookers):
            if looker.behind():  # guard: P4.slow-viewer
                self.dropped += 1
                self._let_go(looker)
            else:
                looker.put(event)

    def _let_go(self, looker: Viewer) -> None:
        """It may be stuck in a full socket: what waits for it is thrown away."""
        looker.dropped = True
        self._lookers.discard(looker)
        while not looker.queue.empty():
            looker.queue.get_nowait()
        looker.put(None)  # guard: P4.shutdown

    def _missed(self, last_event_id: str) -> bytes | None:
        """What came after that event; None where that is not known any more."""
        epoch, _, number = last_event_id.partition("-")
        # guard: P4.other-run minus 1
        if epoch != self._epoch or not number.isdecimal() or len(number) > 12:
            return None
        first = self._events[0][0] if self._events else self._number + 1
        if not first - 1 <= int(number) <= self._number:
            return None
        return b"".join(event for at, event in self._events if at > int(number))

    def _picture(self) -> bytes:
        """As of the last event, so that the next one goes on from it."""
        own = [row for row in self._decisions.since(0, TAIL) if row.revision <= self._revision]
        newest = summaries(own, self._worker) + self._shares.tail()
        newest.sort(key=itemgetter("time"))
        data = _delta(self._sent, newest[-TAIL:], self._wall_s())
        return _event("snapshot", self._id(), data)

    def _id(self) -> bytes:
        return f"{self._epoch}-{self._number}".encode()


class Events:
    """The bytes of one looker's stream. Closing twice is harmless."""

    def __init__(
        self, feed: Feed, looker: Viewer, may_view: Callable[[], bool] = lambda: True
    ) -> None:
        """`may_view`: asked before each event, so at least once a second."""
        self._feed = feed
        self._looker = looker
        self._may_view = may_view

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        event = await self._looker.queue.get()
        if event is None or not self._may_view():  # guard: P2.revoked-feed minus 2
            raise StopAsyncIteration
        return event

    async def deliver(self, receiver: Receiver[bytes]) -> None:
        await deliver_each(self, receiver)

    async def aclose(self) -> None:
        self._feed.leave(self._looker)


def _serialised(sections: dict[str, Any]) -> dict[str, bytes]:
    return {name: strictjson.dumps(section) for name, section in sections.items()}


def _delta(sections: dict[str, bytes], decisions: list[Document], wall_s: float) -> bytes:
    parts = [b'"time":%b' % strictjson.dumps(round(wall_s, 3))]
    parts += [b'"%b":%b' % (name.encode(), text) for name, text in sections.items()]
    if decisions:
        parts.append(b'"decisions":%b' % strictjson.dumps(decisions))
    return b"{" + b",".join(parts) + b"}"


def _event(kind: str, number: bytes, data: bytes) -> bytes:
    """JSON of one line, so that it needs one `data`."""
    return b"event: %b\nid: %b\ndata: %b\n\n" % (kind.encode(), number, data)
