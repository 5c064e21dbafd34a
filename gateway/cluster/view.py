"""Who lives, and who acts as the owner of whose servers, as one gateway sees it. Pure.

Every gateway claims the servers that it decides on at present, and tells its claims to whoever asks
whether it lives. The servers of one owner go together, under the owner's name.

* A claim is taken when nobody who lives has it and nobody who lives is nearer to it in the order of
  succession: the owner itself first, then the gateways as listed.
* Who is nearer and has come back gets it when it has lived for the dwell time: the one who stood in
  drops its claim, and the other, which sees that, takes it. Nobody has it for a moment, and calls
  that arrive then wait for that moment.
* Gateways that do not see each other may claim the same servers. Both serve then, and the one that
  is further off gives way once they have seen each other for the dwell time: two queues for one
  server cost regret and nothing else, while no queue would cost calls.
* What nobody claims for too long is taken by whoever needs it, however far off it is: those who are
  nearer may see a claim that we cannot see. It is kept until one who is nearer claims it too, or
  has come back since: who was there all along and let it be will not take it now. (One that gave
  way to such a one took it again after `unclaimed_s`, for as long as the network was torn.)
* A gateway that was stopped itself (its clock ran on without it) has been taken for dead. It drops
  its claims and looks around first, as at its start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from gateway.core.deadline import Clock


@dataclass(frozen=True, slots=True)
class PeerAnnouncement:
    """What a gateway says of itself."""

    claims: frozenset[str] = frozenset()  # names of owners whose servers it decides on
    leaving: bool = False  # it stops: nothing new may go there


@dataclass(slots=True)
class _Peer:
    looked_at: bool = False
    alive: bool = False
    since_s: float = -math.inf  # when it came to life, as far as we know
    announcement: PeerAnnouncement = field(default_factory=PeerAnnouncement)

    @property
    def stands(self) -> bool:
        return self.alive and not self.announcement.leaving


class ClusterView:
    def __init__(
        self,
        own: str,
        gateways: Sequence[str],
        owners: Sequence[str],
        clock: Clock,
        *,
        dwell_s: float,
        unclaimed_s: float,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """`unclaimed_s`: what nobody claims for so long is taken by whoever needs it."""
        self.own = own
        self._order, self._owners = tuple(gateways), tuple(owners)
        self._clock = clock
        self._dwell_s, self._unclaimed_s = dwell_s, unclaimed_s
        self._on_change = on_change
        self._peers = {name: _Peer() for name in gateways if name != own}
        self._claims: frozenset[str] = frozenset()
        self._leaving = False
        self._chosen: dict[str, str] = {}
        self._unclaimed_since_s: dict[str, float] = {}
        self._taken_s: dict[str, float] = {}  # when each claim was made

    # What happens

    def heard(self, peer: str, announcement: PeerAnnouncement) -> None:
        entry = self._peers[peer]
        entry.looked_at = True
        if not entry.alive:
            entry.alive, entry.since_s = True, self._clock()
        entry.announcement = announcement
        self.settle()

    def lost(self, peer: str) -> None:
        entry = self._peers[peer]
        entry.looked_at, entry.alive, entry.announcement = True, False, PeerAnnouncement()
        self.settle()

    def was_away(self) -> None:
        """This gateway did not run for so long that others have taken it for dead. Those that were
        dead before may be so still: to wait for them would cost calls."""
        living = [peer for peer in self._peers.values() if peer.alive]
        for peer in living:
            peer.looked_at = False
        if living:
            self._claims, self._chosen = frozenset(), {}
        self._on_change()

    def leaves(self) -> None:
        self._leaving = True
        self.settle()

    def settle(self) -> None:
        """Take and drop claims, as of now."""
        before = self._claims, dict(self._chosen)
        self._claims = frozenset(d for d in self._owners if self._should_have(d))
        now_s = self._clock()
        self._taken_s = {d: self._taken_s.get(d, now_s) for d in self._claims}
        self._chosen = {d: o for d in self._owners if (o := self._choice(d)) is not None}
        if before != (self._claims, self._chosen):
            self._on_change()

    # What is seen

    @property
    def announcement(self) -> PeerAnnouncement:
        return PeerAnnouncement(frozenset() if self._leaving else self._claims, self._leaving)

    @property
    def living(self) -> Collection[str]:
        return [name for name, peer in self._peers.items() if peer.alive]

    def owner(self, domain: str) -> str | None:
        """Who acts as the owner of its servers now, this gateway included; None: nobody does."""
        return self._chosen.get(domain)

    def acts_for(self, domain: str) -> bool:
        """Whether others may forward calls of its servers to this gateway."""
        return domain in self._claims and not self._leaving

    @property
    def complete(self) -> bool:
        """Every peer has been looked at, and everything has an owner."""
        looked_at = all(peer.looked_at for peer in self._peers.values())
        return looked_at and all(self.owner(d) is not None for d in self._owners)

    def _should_have(self, domain: str) -> bool:
        nearer = [p for name, p in self._nearer(domain) if p.stands]
        if domain in self._claims:
            self._unclaimed_since_s.pop(domain, None)
            back_s, taken_s = self._clock() - self._dwell_s, self._taken_s[domain]
            return not any(
                p.since_s <= back_s and (p.since_s >= taken_s or domain in p.announcement.claims)
                for p in nearer
            )
        if any(p.stands and domain in p.announcement.claims for p in self._peers.values()):
            self._unclaimed_since_s.pop(domain, None)
            return False
        if not all(peer.looked_at for peer in self._peers.values()):
            return False
        since_s = self._unclaimed_since_s.setdefault(domain, self._clock())
        return not nearer or self._clock() - since_s >= self._unclaimed_s

    def _nearer(self, domain: str) -> list[tuple[str, _Peer]]:
        """Those who come before this gateway in the succession to these servers."""
        line = self._line(domain)
        return [(name, self._peers[name]) for name in line[: line.index(self.own)]]

    def _line(self, domain: str) -> list[str]:
        return [domain, *(name for name in self._order if name != domain)]

    def _choice(self, domain: str) -> str | None:
        if self.acts_for(domain):
            return self.own
        claim = [
            name
            for name in self._line(domain)
            if name != self.own
            and self._peers[name].stands
            and domain in self._peers[name].announcement.claims
        ]
        before = self._chosen.get(domain)
        if before in claim:
            return before
        mine = self.own if domain in self._claims else None  # it stops, and nobody else is there
        return next(iter(claim), mine)
