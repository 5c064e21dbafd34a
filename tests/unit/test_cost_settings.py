"""Prices and ledgers in the settings (B2): what is not said is refused, or taken at its worst."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway import config
from gateway.accounting.pricing import nano
from gateway.accounting.pricing.tariff import tariff
from gateway.config.model_catalog import Catalog
from tests.unit.settings_text import GOOD, changed, refusal

_OUT = "      - endpoint: out\n        model: gpt-4.1\n        substitute: true\n"


def priced(*lines: str) -> str:
    return changed(_OUT, _OUT + "".join(f"        {line}\n" for line in lines))


def catalog(text: str) -> Catalog:
    return Catalog.from_settings(config.parse(text, "f.yaml"))


@pytest.mark.parametrize(
    ("lines", "missing"),
    [
        (["price_usd_per_1k_input_tokens: 0.002"], "output"),
        (["price_usd_per_1k_output_tokens: 0.002"], "input"),
        (["price_usd: 0.1", "price_usd_per_1k_input_tokens: 0.002"], "output"),
    ],
)
def test_a_price_for_one_way_alone_is_refused(lines: list[str], missing: str) -> None:
    told = refusal(priced(*lines))
    assert f"price_usd_per_1k_{missing}_tokens" in told
    assert "say 0 where it costs nothing" in told


@pytest.mark.parametrize(
    ("lines", "usd_per_1k"),
    [
        ([], 0.6),
        (["price_usd: 0.0"], 0.0),
        (["price_usd_per_1k_tokens: 0.002"], 0.002),
        (["price_usd_per_1k_input_tokens: 0.001", "price_usd_per_1k_output_tokens: 0.002"], 0.001),
    ],
    ids=["not stated: the worst", "stated as free", "of all tokens", "of both"],
)
def test_a_cloud_model_is_never_free_by_omission(lines: list[str], usd_per_1k: float) -> None:
    served = catalog(priced(*lines)).endpoints["out"].models["chat"]
    assert tariff(served).given == 1000 * nano(usd_per_1k)


@pytest.mark.parametrize(
    ("costs", "endpoint", "usd_per_hour"),
    [
        ("", "", 3.0),
        ("costs: {gpu_usd_per_hour: 2.5}\n", "", 2.5),
        ("costs: {gpu_usd_per_hour: 2.5}\n", "    gpus: 4\n", 10.0),
        ("costs: {gpu_usd_per_hour: 2.5}\n", "    gpu_usd_per_hour: 1.0\n", 1.0),
        ("costs: {gpu_usd_per_hour: 2.0, gpu_utilisation: 0.5}\n", "", 4.0),
        ("costs: {gpu_purchase_usd: 26298, gpu_months: 36}\n", "", 1.0),
        ("costs: {gpu_purchase_usd: 26298, gpu_running_usd_per_month: 730.5}\n", "", 2.0),
    ],
)
def test_the_hour_of_a_server_costs_what_its_gpus_do(
    costs: str, endpoint: str, usd_per_hour: float
) -> None:
    text = changed("    grpc: gpu-1:8001\n", "    grpc: gpu-1:8001\n" + endpoint) + costs
    served = catalog(text).endpoints["gpu"].models["chat"]
    assert served.gpu_usd_per_hour == pytest.approx(usd_per_hour)


def test_a_model_that_the_file_does_not_name_is_not_free_either() -> None:
    found = catalog(GOOD)
    found.add_undeclared("gpu", ["another"])
    assert found.endpoints["gpu"].models["another"].gpu_usd_per_hour == 3.0


def test_a_stated_price_on_the_premises_stands_for_the_gpus() -> None:
    text = changed("      - endpoint: gpu\n", "      - {endpoint: gpu, price_usd: 0.01}\n")
    served = catalog(text).endpoints["gpu"].models["chat"]
    assert (served.price_usd, served.gpu_usd_per_hour) == (0.01, 0.0)


@pytest.mark.parametrize(
    ("added", "told"),
    [
        ("costs: {gpu_purchase_usd: 1, gpu_usd_per_hour: 1}\n", "follows from gpu_purchase_usd"),
        ("costs: {gpu_utilisation: 0}\n", "gpu_utilisation"),
        ("costs: {unknown_usd_per_1k_tokens: 0}\n", "unknown_usd_per_1k_tokens"),
        ('ledger: {path: a.db, postgres: "${X}"}\n', "X"),
    ],
)
def test_costs_that_make_no_sense_are_refused(added: str, told: str) -> None:
    assert told in refusal(GOOD + added)


def test_a_ledger_is_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_DSN", "host=db")
    told = refusal(GOOD + 'ledger: {path: a.db, postgres: "${LEDGER_DSN}"}\n')
    assert "there is postgres already" in told


def test_without_a_word_the_ledger_lies_beside_the_audit() -> None:
    found = config.parse(GOOD + "audit: {directory: /var/lib/spillway/audit}\n", "f.yaml")
    assert found.ledger_path == Path("/var/lib/spillway/ledger.db")
