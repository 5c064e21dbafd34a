"""Prices that providers publish stand where the settings state none (B2)."""

from __future__ import annotations

from datetime import UTC, date, datetime, time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import config
from gateway.accounting.pricing.tariff import tariff
from gateway.cli.settings.trial import assumed_prices
from gateway.config import providers
from gateway.config.model_catalog import Catalog
from gateway.config.providers.prices import ModelPrice, PriceTable
from gateway.core.types import ServedModel, Usage

LISTS = [name for name in providers.names() if providers.find(name).prices is not None]
TABLE = PriceTable(
    source="https://provider.example/prices",
    checked=date(2026, 3, 1),
    models=(
        ModelPrice(model="m", since=date(2025, 1, 1), input=2, output=8),
        ModelPrice(model="m", since=date(2026, 1, 1), input=1, output=4, cached=0.5),
        ModelPrice(model="m-2024-05-13", since=date(2024, 5, 13), input=5, output=15),
        ModelPrice(model="m", since=date(2099, 1, 1), input=3, output=4),
    ),
)
SETTINGS = """
endpoints:
  claude: {provider: anthropic, zone: cloud}
  own: {kind: openai, zone: onprem, url: "http://127.0.0.1:1", provider: openai}
  plain: {kind: openai, zone: cloud, url: "https://plain.example"}
models:
  chat:
    task: generate
    served_by:
      - {endpoint: claude, model: MODEL, substitute: true}
      - {endpoint: own, model: gpt-4.1, substitute: true}
      - {endpoint: plain, model: gpt-4.1, substitute: true}
"""


@pytest.mark.parametrize(
    ("model", "day", "usd"),
    [
        ("m", date(2024, 12, 31), None),
        ("m", date(2025, 12, 31), 2),
        ("m", date(2026, 1, 1), 1),
        ("m-2025-04-14", date(2026, 1, 1), 1),
        ("m-20250414", date(2026, 1, 1), 1),
        ("m-2024-05-13", date(2026, 1, 1), 5),
        ("m-mini", date(2026, 1, 1), None),
        ("m-2025-04-14-preview", date(2026, 1, 1), None),
        ("ft:m-2025-04-14:acme", date(2026, 1, 1), None),
        ("another", date(2026, 1, 1), None),
    ],
)
def test_a_price_is_its_models_from_its_day_on(model: str, day: date, usd: float | None) -> None:
    price = TABLE.price(model, day)
    assert (None if price is None else price.input) == usd


@pytest.mark.parametrize("name", LISTS)
def test_a_list_that_ships_is_whole(name: str) -> None:
    table = providers.find(name).prices
    assert table is not None
    assert table.source.startswith("https://")
    for price in table.models:
        assert price.since <= table.checked
        assert price.cached is None or price.cached < price.input
        assert price.cache_write is None or price.cache_write >= price.input
    assert len({(price.model, price.since) for price in table.models}) == len(table.models)


@pytest.mark.parametrize("name", LISTS)
def test_a_list_that_ships_agrees_with_what_others_read_there(name: str) -> None:
    genai_prices = pytest.importorskip("genai_prices", reason="compares with a public list")
    table = providers.find(name).prices
    assert table is not None
    million = genai_prices.Usage(input_tokens=1_000_000, output_tokens=1_000_000)
    day = datetime.combine(table.checked, time(), UTC)
    for model in sorted({price.model for price in table.models}):
        theirs = genai_prices.calc_price(
            million, model_ref=model, provider_id=name, genai_request_timestamp=day
        )
        ours = table.price(model, table.checked)
        assert ours is not None
        assert (ours.input, ours.output) == (
            float(theirs.input_price), float(theirs.output_price or 0),
        ), model  # fmt: skip


def _served(model: str, place: str, more: str = "") -> ServedModel:
    text = SETTINGS.replace("MODEL", model + more)
    return Catalog.from_settings(config.parse(text)).endpoints[place].models["chat"]


def test_an_unstated_price_is_the_listed_one() -> None:
    price = tariff(_served("claude-haiku-4-5-20251001", "claude"))
    assert (price.given, price.written) == (10**9, 5 * 10**9)
    assert (price.cached, price.cache_write) == (10**8, 1_250_000_000)


def test_a_stated_price_stands_over_the_list() -> None:
    served = _served("claude-haiku-4-5", "claude", ", price_usd_per_1k_tokens: 0.07")
    price = tariff(served)
    assert {price.given, price.written, price.cached, price.cache_write} == {70 * 10**9}


@pytest.mark.parametrize(
    ("model", "place"), [("claude-next", "claude"), ("claude-opus-5", "plain")]
)
def test_what_nobody_lists_is_the_dearest(model: str, place: str) -> None:
    assert tariff(_served(model, place)).given == 600 * 10**9


def test_a_list_is_of_the_cloud_alone() -> None:
    assert tariff(_served("claude-opus-5", "own")).given == 0


def test_check_says_which_prices_are_assumed_and_how_old() -> None:
    text = SETTINGS.replace("MODEL", "claude-opus-5")
    listed, unknown = assumed_prices(config.parse(text))
    assert (listed.endpoint, unknown.endpoint) == ("claude", "plain")
    assert "input 5, output 25, cached 0.5, cache_write 6.25" in listed.sentence()
    assert "platform.claude.com" in listed.sentence()
    assert "since 2026-07-24" in listed.sentence()
    assert "$all 600 (costs.unknown_usd_per_1k_tokens)" in unknown.sentence()
    assert listed.document()["usd_per_million_tokens"]["cache_write"] == 6.25


_PRICE = st.none() | st.floats(0, 0.1)


@given(
    st.floats(0, 0.1), _PRICE, _PRICE, st.integers(0, 10**6), st.integers(0, 10**6),
    st.integers(0, 10**6),
)  # fmt: skip
def test_no_share_of_the_cache_costs_more_than_what_was_put_aside(
    fresh: float, cached: float | None, cache_write: float | None, given: int, hit: int, kept: int
) -> None:
    price = tariff(
        ServedModel(
            "m",
            price_usd_per_1k_input_tokens=fresh,
            price_usd_per_1k_output_tokens=0.0,
            price_usd_per_1k_cached_tokens=cached,
            price_usd_per_1k_cache_write_tokens=cache_write,
        )
    )
    usage = Usage(given, 0, min(hit, given), cache_write_tokens=min(kept, given - min(hit, given)))
    assert price.price(usage, 0) <= price.price(price.dearest(Usage(given, 0)), 0)
