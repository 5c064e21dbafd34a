"""What providers say is left of their limits is kept, by all that share the limit (A5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from gateway import config
from gateway.accounting.metrics import Metrics
from gateway.config import EndpointSettings, providers
from gateway.config.model_catalog import Catalog
from gateway.config.providers.limits import OPENAI_LIMITS
from gateway.core import ambient
from gateway.core.errors import UpstreamBusy, UpstreamFailed
from gateway.core.types import Zone
from gateway.endpoints.connectors.kinds import build_connector
from gateway.endpoints.connectors.openai.quota import QuotaReader, reset_s
from gateway.endpoints.state import EndpointState
from gateway.endpoints.versions.parts import EndpointParts, build_parts
from gateway.scheduling.factory import new_scheduler, weights
from tests.unit.spill.clock import HandClock

ANTHROPIC = providers.find("anthropic").limits


def waits(
    headers: Mapping[str, str], tokens: int | None = None, limits: object = OPENAI_LIMITS
) -> list[float]:
    reader, heard = QuotaReader(limits), []  # type: ignore[arg-type, var-annotated]
    reader.exhausted = heard.append
    reader.read({k.encode(): v.encode() for k, v in headers.items()}, tokens)
    return heard


def left(requests: str, reset: str, limit: str = "60") -> dict[str, str]:
    return {
        "x-ratelimit-limit-requests": limit,
        "x-ratelimit-remaining-requests": requests,
        "x-ratelimit-reset-requests": reset,
    }


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        (left("1", "59s"), None),
        (left("0", "60s"), 1.0),
        (left("0", "1m0s", limit="6"), 10.0),
        (left("0", "20ms"), 0.02 / 60),
        (left("0", "12"), 0.2),
        ({"x-ratelimit-remaining-requests": "0"}, 1.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "7s"}, 7.0),
        (left("none", "60s"), None),
        (left("-1", "60s"), None),
        (left("0", "soon"), 1.0),
    ],
)
def test_nothing_goes_until_one_request_is_left_again(
    headers: Mapping[str, str], wait_s: float | None
) -> None:
    assert waits(headers) == ([] if wait_s is None else [pytest.approx(wait_s)])


def test_tokens_are_left_for_a_usual_call() -> None:
    headers = {
        "x-ratelimit-limit-tokens": "60000",
        "x-ratelimit-remaining-tokens": "100",
        "x-ratelimit-reset-tokens": "59.9s",
    }
    assert waits(headers) == []
    assert waits(headers, 11_000) == [pytest.approx(1.0)]  # 1,100 tokens are usual by now


def test_anthropics_headers_have_the_time_of_day() -> None:
    at = datetime.fromtimestamp(ambient.wall_s(), UTC) + timedelta(seconds=50)
    headers = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    assert waits(headers, limits=ANTHROPIC) == [pytest.approx(1.0, abs=0.05)]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1), ("6m0s", 360), ("20ms", 0.02), ("1h2m3.5s", 3723.5), ("1m30ms", 60.03),
     ("0", 0), ("1.5", 1.5), ("", None), ("x", None), ("2020-01-01T00:00:00Z", 0)],
)  # fmt: skip
def test_resets_are_read_as_providers_write_them(text: str, seconds: float | None) -> None:
    assert reset_s(text) == seconds


SETTINGS = """
endpoints:
  one: {provider: openai, zone: cloud, url: "https://api.example/v1", api_key: "${TEST_QUOTA_KEY}"}
  same: {provider: openai, zone: cloud, url: "https://api.example/v1", api_key: "${TEST_QUOTA_KEY}",
         max_in_flight: 4}
  other-key: {provider: openai, zone: cloud, url: "https://api.example/v1", api_key: "${TEST_B}"}
  other-host: {provider: openai, zone: cloud, url: "https://b.example/v1",
               api_key: "${TEST_QUOTA_KEY}"}
  other-model: {provider: openai, zone: cloud, url: "https://api.example/v1",
                api_key: "${TEST_QUOTA_KEY}"}
models:
  m:
    task: generate
    served_by:
      - {endpoint: one, model: gpt-4.1, substitute: true}
      - {endpoint: same, model: gpt-4.1, substitute: true}
      - {endpoint: other-key, model: gpt-4.1, substitute: true}
      - {endpoint: other-host, model: gpt-4.1, substitute: true}
      - {endpoint: other-model, model: gpt-4o, substitute: true}
"""
ALL = ("one", "same", "other-key", "other-host", "other-model")

pytestmark = pytest.mark.anyio


class Rig:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TEST_QUOTA_KEY", "the-one-key")
        monkeypatch.setenv("TEST_B", "the-other-key")
        self.settings = config.parse(SETTINGS)
        self.clock = HandClock()
        self.states = {name: _state(its) for name, its in self.settings.endpoints.items()}
        self.parts = self._parts()

    def _parts(self) -> EndpointParts:
        settings = self.settings
        return build_parts(
            Catalog.from_settings(settings), self.states, Metrics(), self.clock,
            weights(settings.queue, settings.routing),
            new_scheduler(settings.queue, settings.routing, lambda e: None, lambda: None),
        )  # fmt: skip

    def closed(self) -> set[str]:
        return {name for name in ALL if self.parts.clouds.closed_s(name) > 0.0}

    def fails(self, name: str, error: Exception) -> None:
        endpoint = self.parts.registry.catalog.endpoints[name]
        epoch = self.parts.outcomes.started(endpoint, "m")
        self.parts.outcomes.failed(endpoint, "m", epoch, error, self.clock())  # type: ignore[arg-type]
        self.parts.outcomes.ended(endpoint, "m")


def _state(settings: EndpointSettings) -> EndpointState:
    assert settings.zone is Zone.CLOUD
    connector = build_connector(settings, None)
    return EndpointState(settings, connector, None, None, None)


def _headers(rig: Rig) -> None:
    quota = rig.states["one"].connector.quota  # type: ignore[attr-defined]
    quota.read({k.encode(): v.encode() for k, v in left("0", "60s").items()})


@pytest.mark.parametrize(
    "says",
    [
        _headers,
        lambda rig: rig.fails("one", UpstreamBusy("busy", retry_after_s=1.0)),
        lambda rig: rig.fails("one", UpstreamFailed("overloaded", retry_after_s=1.0)),
    ],
    ids=["headers", "a 429", "a 503"],
)
async def test_what_has_the_same_credential_and_model_has_one_limit(
    says: Callable[[Rig], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(monkeypatch)
    says(rig)
    assert rig.closed() == {"one", "same"}
    rig.clock.pass_s(1.01)
    assert rig.closed() == set()


async def test_after_a_reload_the_new_parts_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.states["same"] = _state(rig.settings.endpoints["same"])
    rig.parts = rig._parts()
    _headers(rig)
    assert rig.closed() == {"one", "same"}


async def test_a_long_wait_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.fails("one", UpstreamBusy("busy", retry_after_s=900.0))
    rig.clock.pass_s(899.0)
    assert rig.closed() == {"one", "same"}
    assert math.isclose(rig.parts.clouds.closed_s("one"), 1.0)
