"""Keeps the view up to date: asks every other gateway, for ever, whether it lives.

A refused connection counts at once, silence after `silence_s`, in which two probes went unanswered
and nothing else was heard either. While something has no owner the pauses are short.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping

from gateway.accounting.metrics import Metrics
from gateway.cluster import PeerLink
from gateway.cluster.view import ClusterView, PeerAnnouncement
from gateway.config import ClusterSettings
from gateway.core import ambient
from gateway.core.deadline import Clock, Deadline
from gateway.core.errors import DeadlineExceeded, GatewayError

log = logging.getLogger(__name__)

_HURRY_S = 0.05
_LAG_S = 0.25  # a timeout that comes so late says more of this process than of the peer
_SURE_S = 0.25  # on top of a probe's pause: heard so lately, a peer is not in doubt


def pack_announcement(announcement: PeerAnnouncement) -> bytes:
    return json.dumps(
        {"claims": sorted(announcement.claims), "leaving": announcement.leaving}
    ).encode()


def unpack_announcement(message: bytes) -> PeerAnnouncement:
    """Raises ValueError."""
    document = json.loads(message)
    if not (isinstance(document, dict) and isinstance(document.get("claims"), list)):
        raise ValueError("not what a gateway says of itself")
    return PeerAnnouncement(
        frozenset(str(name) for name in document["claims"]), document.get("leaving") is True
    )


class Membership:
    def __init__(
        self,
        view: ClusterView,
        links: Mapping[str, PeerLink],
        settings: ClusterSettings,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self.view = view
        self._links = links
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._heard_s = dict.fromkeys(links, float("-inf"))
        self._probe_now = {name: asyncio.Event() for name in links}
        self._change = asyncio.Event()
        self._owned: frozenset[str] = frozenset()

    # For those who forward

    async def owner(self, domain: str, deadline: Deadline) -> str:
        """Who decides on its servers now, waited for while nobody does."""
        while (owner := self.view.owner(domain)) is None:
            for name in self._links:
                self._probe_now[name].set()
            await self.changed(deadline.remaining_s())
            if deadline.passed():
                raise DeadlineExceeded(
                    "the latency budget ran out while no gateway decided on the servers",
                    reason="deadline_exceeded_in_queue",
                )
        return owner

    async def changed(self, within_s: float) -> None:
        """Returns when the view has changed, or after so long."""
        try:
            async with asyncio.timeout(max(0.0, within_s)):
                await self._change.wait()
        except TimeoutError:
            return

    def heard(self, peer: str) -> None:
        """A sign of life by other means than a probe."""
        self._heard_s[peer] = self._clock()

    def on_announcement(self, peer: str, message: bytes) -> None:
        """What a peer says of itself beside an answer."""
        self.heard(peer)
        try:
            self.view.heard(peer, unpack_announcement(message))
        except ValueError:
            log.warning("%s: says nonsense of itself", peer)

    def doubt(self, peer: str) -> None:
        """Something went wrong over there: look at once."""
        self._probe_now[peer].set()

    def sure(self, gateway: str) -> bool:
        """Whether it lives for certain, this gateway included."""
        if gateway == self.view.own:
            return True
        return self._clock() - self._heard_s[gateway] <= self._settings.probe_s + _SURE_S

    # In the background

    def view_changed(self) -> None:
        change, self._change = self._change, asyncio.Event()
        change.set()
        claims = self.view.announcement.claims
        for name in sorted(claims - self._owned - {self.view.own}):
            self._metrics.cluster_takeovers.labels(name).inc()
            log.warning("%s: its servers are decided on here now", name)
        for name in sorted(self._owned - claims):
            log.info("%s: its servers are decided on here no longer", name)
        self._owned = claims

    async def probe_all(self) -> None:
        await asyncio.gather(*(self._probe_peer(name) for name in self._links))
        self.view.settle()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._mind_the_clock())
            for name in self._links:
                group.create_task(self._run_one(name))

    async def _run_one(self, peer: str) -> None:
        while True:
            pause_s = self._settings.probe_s
            if not self.view.complete:
                pause_s = min(pause_s, _HURRY_S)
            try:
                async with asyncio.timeout(pause_s):
                    await self._probe_now[peer].wait()
                await asyncio.sleep(min(pause_s, _HURRY_S) / 2)  # however many doubt it
            except TimeoutError:
                pass
            self._probe_now[peer].clear()
            await self._probe_peer(peer)

    async def _mind_the_clock(self) -> None:
        """Whoever was stopped for longer than others are patient has been taken for dead."""
        while True:
            before_s = self._clock()
            await asyncio.sleep(self._settings.probe_s)
            late_s = self._clock() - before_s - self._settings.probe_s
            if late_s >= self._settings.silence_s / 2:
                log.warning("this gateway was stopped for %.1f s; it looks around first", late_s)
                self.view.was_away()
                for name in self._links:
                    self._probe_now[name].set()
            else:
                self.view.settle()

    async def _probe_peer(self, peer: str) -> None:
        heard_s = self._heard_s[peer]
        answer = await self._ask(peer)
        if answer is None:
            answer = await self._ask(peer)
            if answer is None and self._heard_s[peer] != heard_s:
                return  # it answers calls: it is busy
        if isinstance(answer, PeerAnnouncement):
            if peer not in self.view.living:
                log.info("%s: up", peer)
            self._metrics.cluster_peer_up.labels(peer).set(1)
            self.heard(peer)
            self.view.heard(peer, answer)
            return
        if peer in self.view.living:
            log.warning("%s: down", peer)
        self._metrics.cluster_peer_up.labels(peer).set(0)
        self._heard_s[peer] = float("-inf")
        self.view.lost(peer)
        self._links[peer].cut()

    async def _ask(self, peer: str) -> PeerAnnouncement | bool | None:
        """What it says of itself; None: nothing in time; False: it cannot be reached."""
        patience_s = self._settings.silence_s / 2
        while True:
            late_s = ambient.loop_s() + patience_s + _LAG_S
            deadline = Deadline.after(patience_s, self._clock)
            try:
                own = pack_announcement(self.view.announcement)
                return unpack_announcement(await self._links[peer].state(own, deadline))
            except DeadlineExceeded:
                if ambient.loop_s() <= late_s:
                    return None
            except (GatewayError, OSError, ValueError):
                return False
            except Exception:  # noqa: BLE001 - a background loop goes on; the bug is counted
                self._metrics.tasks_failed.labels("cluster").inc()
                return False
