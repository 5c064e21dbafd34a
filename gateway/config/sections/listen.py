"""Where the gateway listens, and what it lets in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gateway.config.section import Contradiction, Count, NotNegative, Positive, Section

_MOST_WORKERS = 64


class ListenTlsSettings(Section):
    """TLS 1.2 or later on both listeners. PEM files; a change counts for new connections."""

    cert_file: Path
    key_file: Path = Field(description="without a passphrase")
    client_ca_file: Path | None = Field(
        None, description="who connects must show a certificate of this authority"
    )


Origin = Annotated[
    str, Field(pattern=r"^(\*|(https?|[a-z][a-z0-9+.-]*-extension)://[a-z0-9.:\[\]-]{1,253})$")
]
HeaderName = Annotated[str, Field(pattern="^[A-Za-z0-9-]{1,64}$")]


class CorsSettings(Section):
    """Pages of other sites that may call from a browser."""

    origins: list[Origin] = Field(
        [], description="theirs, as in https://app.example; `*`: any, where callers show a key"
    )
    headers: list[HeaderName] = Field(
        [], description="that they may send besides those of the gateway and of SDKs"
    )
    credentials: bool = Field(False, description="browsers may send cookies and certificates")
    max_age_s: Annotated[int, Field(ge=0, le=86_400)] = Field(
        600, description="for which browsers remember what they may send"
    )

    @model_validator(mode="after")
    def _names_who_has_credentials(self) -> CorsSettings:
        if self.credentials and "*" in self.origins:  # guard: S18.credentials
            raise Contradiction(("origins",), "`*` and credentials: true exclude each other")
        return self


class ListenSettings(Section):
    """Where the gateway listens."""

    host: str = "127.0.0.1"
    http_port: int = Field(8080, ge=0, le=65535)
    grpc_port: int = Field(8081, ge=0, le=65535)
    exposed: bool = Field(
        False, description="allow a host other than loopback although no keys are configured"
    )
    allowed_hosts: list[str] = Field(
        [], description="names and addresses besides the loopback's that callers may call it by"
    )
    cors: CorsSettings = CorsSettings()
    tls: ListenTlsSettings | None = Field(None, description="absent: plain HTTP and gRPC")
    workers: Annotated[int, Field(ge=1, le=_MOST_WORKERS)] | Literal["auto"] = Field(
        1, description="processes that share the ports; auto: one for each processor"
    )

    @property
    def worker_count(self) -> int:
        if self.workers != "auto":
            return self.workers
        return min(_MOST_WORKERS, len(os.sched_getaffinity(0)))


class LimitSettings(Section):
    """What one call and all calls together may cost the gateway."""

    max_body_bytes: Count = 64 * 1024 * 1024
    max_held_bytes: Count = 512 * 1024 * 1024
    max_answer_bytes: Count = 64 * 1024 * 1024
    max_held_answer_bytes: Count = 512 * 1024 * 1024
    max_json_depth: Count = 64
    max_json_bytes: Count = 12 * 1024 * 1024
    max_json_members: Count = 100_000
    max_json_values: Count = 1_000_000
    max_concurrent: Count = 1024
    max_concurrent_per_tenant: Count = 1024
    max_latency_budget_ms: Positive = 3_600_000
    default_latency_budget_ms: Positive = 60_000
    drain_s: NotNegative = 20.0
