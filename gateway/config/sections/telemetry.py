"""Where spans and metrics are sent to, and how the log is written."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from gateway.config import external_addresses
from gateway.config.section import Contradiction, Positive, Score, Section


class TelemetrySettings(Section):
    """A collector of OpenTelemetry. Nothing of a call's content goes there."""

    otlp_url: str | None = Field(
        None, description="OTLP over HTTP, without /v1/...: http://collector:4318; none: nothing"
    )
    headers: dict[str, SecretStr] = Field({}, description="that the collector wants")
    ca_file: Path | None = None
    trace_ratio: Score = Field(0.05, description="share of calls traced of which no caller decided")
    callers_decide: bool = Field(
        True, description="a caller's traceparent says whether its call is traced"
    )
    push_metrics: bool = Field(False, description="send metrics there, too")
    push_metrics_s: Positive = Field(15.0, description="between two pushes")

    @model_validator(mode="after")
    def _complete(self) -> TelemetrySettings:
        if self.otlp_url is None:
            if self.push_metrics:
                raise Contradiction(("push_metrics",), "there is no otlp_url to send them to")
            return self
        try:
            external_addresses.url_host(self.otlp_url)
        except ValueError as exc:
            raise Contradiction(("otlp_url",), str(exc)) from None
        if self.ca_file is not None and not self.otlp_url.startswith("https:"):
            raise Contradiction(("ca_file",), "there is no TLS that it could be for")
        return self


class LogSettings(Section):
    """How the gateway's log is written, to standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "json", "text"] = Field(
        "auto", description="auto: text on a terminal, else one JSON object a line"
    )
