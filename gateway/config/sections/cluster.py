"""Several gateways in front of the same servers: who they are, and who owns which server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from gateway.config import external_addresses
from gateway.config.section import Contradiction, Name, NotNegative, Positive, Section, known
from gateway.config.sections.endpoints import EndpointSettings
from gateway.config.sections.models import ModelSettings

_PROBES_A_SILENCE = 2  # fewer, and one that is lost takes a gateway out
GatewayName = Annotated[str, Field(pattern=r"^[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?$")]


class PeerListenSettings(Section):
    """Where this gateway listens for the other ones."""

    host: str = "127.0.0.1"
    port: int = Field(8443, ge=1, le=65535)


class PeerSettings(Section):
    """One gateway of the cluster, as all of them know it."""

    url: str = Field(description="where the others reach it, e.g. https://10.0.0.1:8443")
    owns: tuple[Name, ...] = Field((), description="the on-prem endpoints that it decides on")
    i_know: bool = Field(False, description="this public name or address stands on the premises")

    @model_validator(mode="after")
    def _reachable(self) -> PeerSettings:
        try:
            host = external_addresses.url_host(self.url)
        except ValueError as exc:
            raise Contradiction(("url",), str(exc)) from None
        parts = urlsplit(self.url)
        if parts.scheme != "https" or parts.path not in ("", "/"):
            raise Contradiction(("url",), "must be https://host:port, without a path")
        if not self.i_know and external_addresses.could_be_outside(host):
            raise Contradiction(
                ("url",),
                f"{host} is a public name or address, and restricted calls are forwarded there; "
                "if it really leads to your premises say i_know: true",
            )
        return self


class ClusterSettings(Section):
    """Several gateways that share on-prem servers. The same in the file of each, but for `self`,
    `listen` and the certificate."""

    self: GatewayName = Field(description="this gateway's name under gateways")
    listen: PeerListenSettings = PeerListenSettings()
    cert_file: Path = Field(description="PEM; names this gateway as a DNS name")
    key_file: Path = Field(description="PEM, without a passphrase")
    ca_file: Path = Field(description="PEM; the one authority whose certificates peers have")
    gateways: dict[GatewayName, PeerSettings] = Field(min_length=1)
    probe_s: Positive = Field(0.3, description="between two looks at another gateway")
    silence_s: Positive = Field(1.0, description="a gateway that is silent so long counts as dead")
    dwell_s: NotNegative = Field(
        5.0, description="a gateway that is back has its servers back after so long"
    )

    @model_validator(mode="after")
    def _consistent(self) -> ClusterSettings:
        if self.self not in self.gateways:
            raise Contradiction(("self",), f"no gateway {self.self!r}; {known(self.gateways)}")
        if self.silence_s < _PROBES_A_SILENCE * self.probe_s:
            raise Contradiction(
                ("silence_s",),
                f"is under {_PROBES_A_SILENCE} times probe_s ({self.probe_s:g}): one lost probe "
                "would take a gateway out; make it longer",
            )
        return self

    def owner(self, endpoint: str) -> str | None:
        return next((n for n, g in self.gateways.items() if endpoint in g.owns), None)

    def check_owned(
        self, endpoints: Mapping[str, EndpointSettings], models: Mapping[str, ModelSettings]
    ) -> None:
        """Raises Contradiction, from the whole file on."""
        self._check_owns(endpoints)
        for name, endpoint in endpoints.items():
            shared = endpoint.zone.onprem and not endpoint.embedded
            if shared and self.owner(name) is None:
                raise Contradiction(
                    ("endpoints", name),
                    "is on-prem and no gateway owns it; name it under cluster.gateways.NAME.owns",
                )
        for name, model in models.items():
            self._check_one_owner(name, model, endpoints)

    def _check_owns(self, endpoints: Mapping[str, EndpointSettings]) -> None:
        owners: dict[str, str] = {}
        for gateway, peer in self.gateways.items():
            for i, name in enumerate(peer.owns):
                where = ("cluster", "gateways", gateway, "owns", i)
                if name not in endpoints:
                    raise Contradiction(where, f"no endpoint {name!r}; {known(endpoints)}")
                if not endpoints[name].zone.onprem:
                    raise Contradiction(
                        where, f"{name!r} is in the cloud, where every gateway has its own door"
                    )
                if endpoints[name].embedded:
                    raise Contradiction(
                        where,
                        f"{name!r} is embedded: each gateway starts its own, which no other one "
                        "can reach; drop it here, or start it apart and give its url and grpc",
                    )
                if name in owners:
                    raise Contradiction(
                        where, f"{name!r} is owned by {owners[name]} already; drop it in one place"
                    )
                owners[name] = gateway

    def _check_one_owner(
        self, name: str, model: ModelSettings, endpoints: Mapping[str, EndpointSettings]
    ) -> None:
        """All servers of a model are decided on by one gateway: they have one queue."""
        first: tuple[str, str] | None = None
        for i, served in enumerate(model.served_by):
            if not endpoints[served.endpoint].zone.onprem:
                continue
            owner = self.owner(served.endpoint) or "each gateway its own"
            if first is not None and first[1] != owner:
                raise Contradiction(
                    ("models", name, "served_by", i, "endpoint"),
                    f"the owner of {served.endpoint} is {owner} and that of {first[0]} is "
                    f"{first[1]}; the servers of a model have one queue, so give them one owner",
                )
            first = first or (served.endpoint, owner)
