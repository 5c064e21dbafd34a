"""Where models are served: addresses, each in the one zone that it says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from gateway.config import external_addresses, providers
from gateway.config.endpoint_kinds import KINDS, OPENAI, Addresses
from gateway.config.providers import ProviderDescription, ProviderName
from gateway.config.section import Contradiction, Count, KnownWord, NotNegative, Positive, Section
from gateway.config.sections.credentials import CredentialSettings, is_confidential
from gateway.config.zones import ZoneName, ZoneReference
from gateway.core.types import CLOUD, ONPREM, Zone
from gateway.core.yaml_document import ConfigError

_AWS_HOST: Final = re.compile(
    r"\.([a-z]{2,8}(?:-[a-z]+)+-[0-9]+)\.(?:vpce\.)?(?:amazonaws\.com(?:\.cn)?|api\.aws)$"
)


def check_pair(cert_file: Path | None, key_file: Path | None) -> None:
    if (cert_file is None) != (key_file is None):
        missing = "cert_file" if cert_file is None else "key_file"
        raise Contradiction((), f"has no {missing}: a certificate and its key go together")


class ZoneTlsSettings(Section):
    """For the endpoints of one zone that have none of their own."""

    ca_file: Path | None = Field(None, description="PEM; trusted for this zone, and nobody else")
    cert_file: Path | None = Field(None, description="PEM; what the gateway shows, by mTLS")
    key_file: Path | None = Field(None, description="PEM, without a passphrase")

    @model_validator(mode="after")
    def _whole(self) -> ZoneTlsSettings:
        check_pair(self.cert_file, self.key_file)
        return self


class TlsSettings(Section):
    """What TLS to endpoints goes by, apart for each zone."""

    onprem: ZoneTlsSettings = ZoneTlsSettings()
    cloud: ZoneTlsSettings = ZoneTlsSettings()
    zones: dict[ZoneName, ZoneTlsSettings] = Field({}, description="of the settings' own zones")

    def for_endpoint(self, endpoint: EndpointSettings) -> EndpointSettings:
        """The endpoint with what its zone has and it has not. A certificate and its key stay
        together."""
        # guard: M5.zone-certificate -> zone = self.onprem
        zone = self._its(endpoint.zone)
        changes: dict[str, Path | None] = {}
        if endpoint.ca_file is None:
            changes["ca_file"] = zone.ca_file
        if endpoint.cert_file is None:
            changes |= {"cert_file": zone.cert_file, "key_file": zone.key_file}
        return endpoint.model_copy(update=changes)

    def _its(self, zone: Zone) -> ZoneTlsSettings:
        if zone is ONPREM:
            return self.onprem
        return self.cloud if zone is CLOUD else self.zones.get(zone.name, ZoneTlsSettings())


class EndpointSettings(Section):
    """One place that can serve models. It must say which zone it stands in."""

    kind: Annotated[str, KnownWord(lambda: list(KINDS))]
    zone: ZoneReference
    provider: ProviderName | None = Field(
        None, description="whose API it has; or the path of a description of your own (.yaml)"
    )
    query: dict[str, SecretStr] = Field(
        {}, description="of its calls, in addition to its provider's"
    )
    url: str | None = Field(None, description="base URL of its HTTP side, e.g. http://gpu-1:8000")
    grpc: str | None = Field(None, description="host:port of its gRPC side")
    grpc_tls: bool = False
    embedded: bool = Field(False, description="a Triton server that Spillway starts by itself")
    repository: Path | None = Field(None, description="model repository of the embedded server")
    reload: bool = Field(
        False, description="the embedded server takes new versions of its models while it runs"
    )
    api_key: SecretStr | None = None
    credential: CredentialSettings | None = Field(
        None, description="in the place of api_key: one that ends and is renewed"
    )
    headers: dict[str, SecretStr] = Field({})
    ca_file: Path | None = None
    cert_file: Path | None = Field(None, description="PEM; what the gateway shows it, by mTLS")
    key_file: Path | None = Field(None, description="PEM, without a passphrase")
    i_know: bool = Field(False, description="this public name or address stands on the premises")
    metrics_url: str | None = Field(
        None, description="where a Triton server tells its metrics, e.g. http://gpu-1:8002/metrics"
    )
    connect_timeout_ms: Positive = 2000
    expected_ms: Positive = Field(100, description="service time until one has been observed")
    max_in_flight: Count = 256
    probe_s: Positive = Field(0.5, description="between health probes")
    canary: bool | None = Field(
        None, description="small inferences of our own; by default on-prem only, as they cost"
    )

    gpus: Count = Field(1, description="on-prem: how many it has, for what its time costs")
    gpu_usd_per_hour: NotNegative | None = Field(
        None, description="of each of them; as costs says when absent"
    )
    egress_usd_per_gb: NotNegative = Field(
        0.0, description="of what is sent there and what comes back"
    )
    shares_gpu: bool | None = Field(
        None, description="its models share one GPU; by default those of kind triton do"
    )

    @model_validator(mode="before")
    @classmethod
    def _from_provider(cls, given: Any) -> Any:
        """An endpoint with a provider is of the provider's kind, at the provider's URL."""
        if not isinstance(given, Mapping):
            return given
        name, kind = given.get("provider"), given.get("kind")
        if name is None and isinstance(kind, str) and kind in KINDS:
            name = KINDS[kind].provider or None
        if not isinstance(name, str):
            return given
        stated = {"kind": OPENAI.name}
        with suppress(ConfigError):  # the field itself reports it
            described = providers.find(name)
            stated["kind"] = described.kind
            if described.url:
                stated["url"] = described.url
        return {**stated, **given, "provider": name}

    @model_validator(mode="after")
    def _reachable(self) -> EndpointSettings:
        self._check_embedded() if self.embedded else self._check_sides()
        check_pair(self.cert_file, self.key_file)
        for key, host, _ in self.hosts():
            if self.zone.onprem and not self.i_know and external_addresses.could_be_outside(host):
                raise Contradiction(
                    (key,),
                    f"{host} is a public name or address, and the zone is {self.zone.name}; "
                    "if it really leads to your premises say i_know: true",
                )
        return self

    def _check_embedded(self) -> None:
        if not KINDS[self.kind].embeddable or not self.zone.onprem:
            kinds = " or ".join(kind.name for kind in KINDS.values() if kind.embeddable)
            raise Contradiction(
                ("embedded",), f"only an endpoint of kind {kinds} in zone onprem can be"
            )
        for key in ("url", "grpc", "metrics_url"):
            if getattr(self, key):
                raise Contradiction((key,), "an embedded server chooses its own; drop it")

    def _check_sides(self) -> None:
        if self.repository is not None:
            raise Contradiction(("repository",), "only an embedded server is given one")
        if self.reload:
            raise Contradiction(("reload",), "only an embedded server is told how to start")
        kind = KINDS[self.kind]
        if kind.addresses is Addresses.GRPC and not self.grpc:
            raise Contradiction((), f"kind {kind.name} needs grpc: host:port of its gRPC side")
        if self.credential is not None:
            if kind.provider is None:
                raise Contradiction(
                    ("credential",), f"an endpoint of kind {kind.name} has api_key alone; drop it"
                )
            if self.api_key is not None:
                raise Contradiction(("credential",), "contradicts api_key; drop one of both")
        if self.provider is None and self.query:
            raise Contradiction(("query",), "only endpoints with a provider have one; drop it")
        if self.provider is not None and kind.provider is None:
            raise Contradiction(("provider",), f"an endpoint of kind {kind.name} has none; drop it")
        if self.provider is not None and self.provider.kind != kind.name:
            raise Contradiction(
                ("kind",), f"{self.provider.title} is of kind {self.provider.kind}; drop it"
            )
        if kind.addresses is Addresses.URL and not self.url:
            like = self.provider and self.provider.url_example
            raise Contradiction(
                (), f"kind {kind.name} needs url: its base URL{f', such as {like}' if like else ''}"
            )
        if kind.addresses is Addresses.URL and self.grpc:
            raise Contradiction(
                ("grpc",), f"an endpoint of kind {kind.name} has no gRPC side; drop it"
            )
        if kind.addresses is Addresses.EITHER and bool(self.url) == bool(self.grpc):
            raise Contradiction((), f"kind {kind.name} needs exactly one of url and grpc")
        if self.metrics_url and not kind.extensions:
            read = " or ".join(kind.name for kind in KINDS.values() if kind.extensions)
            raise Contradiction(("metrics_url",), f"only those of kind {read} are read; drop it")
        if self.grpc_tls and not self.grpc:
            raise Contradiction(("grpc_tls",), "there is no grpc that could use it")
        if self.provider is not None:
            self._check_signing(self.provider)

    def _check_signing(self, provider: ProviderDescription) -> None:
        if self.credential is None or self.credential.aws is None:
            authorized = self.credential or self.api_key or self.headers
            if provider.signing and not authorized:
                raise Contradiction((), f"{provider.title} needs credential.aws or api_key")
            return
        if not provider.signing:
            raise Contradiction(("credential", "aws"), "its provider takes no AWS signatures")
        if not is_confidential(self.url or ""):  # guard: S15.signing-tls
            raise Contradiction(("url",), "calls signed by AWS keys go over https alone")
        if not self.signing_region:
            raise Contradiction(
                ("credential", "aws"), "needs region: the host of url does not say it"
            )

    @property
    def signing_region(self) -> str:
        """Of AWS; empty where nothing says it."""
        stated = self.credential and self.credential.aws and self.credential.aws.region
        named = _AWS_HOST.search(urlsplit(self.url or "").hostname or "")
        return stated or (named[1] if named else "")

    def hosts(self) -> Iterator[tuple[str, str, str]]:
        """Each address with its key and its host: key, host, address."""
        readers: dict[str, tuple[str | None, Callable[[str], str]]] = {
            "url": (self.url, external_addresses.url_host),
            "grpc": (self.grpc, external_addresses.target_host),
            "metrics_url": (self.metrics_url, external_addresses.url_host),
        }
        for key, (address, read) in readers.items():
            if address:
                try:
                    yield key, read(address), address
                except ValueError as exc:
                    raise Contradiction((key,), str(exc)) from None
