"""This gateway as one of several: everything of `cluster`, put together from the settings."""

from __future__ import annotations

import functools
import socket
from collections.abc import Callable

from gateway.accounting.metrics import Metrics
from gateway.cluster import certificates
from gateway.cluster.forward import Forwarding
from gateway.cluster.links import TlsLink
from gateway.cluster.listener import Listener
from gateway.cluster.membership import Membership
from gateway.cluster.owner import Owner
from gateway.cluster.ownership import Declared
from gateway.cluster.view import ClusterView
from gateway.config import ClusterSettings, LimitSettings
from gateway.core.deadline import Clock
from gateway.core.held_bytes import HeldBytes
from gateway.endpoints.versions.parts import EndpointParts

_CONNECT_S = 2.0
_UNCLAIMED = 2.0  # silences: what nobody claims for so long is taken by whoever needs it
_HEAD_BYTES = 1024 * 1024  # of a forwarded call, beside its tensors


class Node:
    def __init__(
        self,
        settings: ClusterSettings,
        limits: LimitSettings,
        parts: EndpointParts,
        metrics: Metrics,
        clock: Clock,
        answers: HeldBytes,
    ) -> None:
        """`answers`: the budget of this process for what endpoints answer."""
        ownership = Declared(settings)
        peers = {name: p for name, p in settings.gateways.items() if name != settings.self}
        self._settings = settings
        self._owners = ownership.owners
        self._metrics = metrics
        self._tls = functools.cache(lambda: certificates.client_context(settings))
        self._links = {
            name: TlsLink(
                name,
                peer,
                self._tls,
                connect_timeout_s=_CONNECT_S,
                max_connections=limits.max_concurrent,
            )
            for name, peer in peers.items()
        }
        self.view = ClusterView(
            settings.self,
            ownership.gateways,
            ownership.owners,
            clock,
            dwell_s=settings.dwell_s,
            unclaimed_s=_UNCLAIMED * settings.silence_s,
            on_change=lambda: self.members.view_changed(),
        )
        self.members = Membership(self.view, self._links, settings, metrics, clock)
        self.queues = Forwarding(
            parts.entry, parts.conditions.own_cloud_room, ownership, self.members, self._links,
            metrics, clock,
        )  # fmt: skip
        self.owner = Owner(parts, ownership, self.view, metrics, clock, answers)
        self._most_bytes = 2 * limits.max_body_bytes + _HEAD_BYTES
        self._listener: Listener | None = None

    async def start(self, bound: Callable[[str, int, str], socket.socket]) -> None:
        """Listen, and look at everybody once. Raises ConfigError for certificates that cannot be
        used."""
        self._tls()
        listen, tls = self._settings.listen, certificates.server_context(self._settings)
        self._listener = Listener(self.owner, frozenset(self._links), tls, self._most_bytes)
        await self._listener.start(bound(listen.host, listen.port, "cluster.listen.port"))
        await self.members.probe_all()

    async def run(self) -> None:
        await self.members.run()

    def leave(self) -> None:
        """Stop deciding for others: who waits here is handed back, and nobody new comes."""
        self.view.leaves()
        self.owner.leave()

    async def aclose(self) -> None:
        if self._listener is not None:
            await self._listener.aclose()
        for link in self._links.values():
            await link.aclose()

    def publish(self) -> None:
        for name in self._owners:
            self._metrics.cluster_owner.labels(name).set(name in self.view.announcement.claims)

    def report(self) -> dict[str, object]:
        """For /status."""
        living = set(self.view.living)
        return {
            "self": self.view.own,
            "gateways": {
                name: {
                    "up": name == self.view.own or name in living,
                    "owns": list(gateway.owns),
                    "decided_by": self.view.owner(name) if gateway.owns else None,
                }
                for name, gateway in self._settings.gateways.items()
            },
        }
