"""The simulated cloud's settings: typed, refused where wrong, and dice that repeat themselves."""

import statistics
from pathlib import Path

import pytest

from gateway.demo.cloud import settings
from gateway.demo.cloud.conditions import Dice, Refusal
from gateway.demo.cloud.settings import CloudSettings, OutageMode, SettingsError


def test_a_file_changes_what_it_names_and_keeps_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "cloud.yaml"
    file.write_text("round_trip_median_ms: 40\noutage: hang\nconcurrency_limit: 3\n")
    loaded = settings.load(file)
    assert loaded == CloudSettings(
        round_trip_median_ms=40.0, outage=OutageMode.HANG, concurrency_limit=3
    )
    assert type(loaded.round_trip_median_ms) is float


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("latency", 3, "unknown settings: latency"),
        ("error_rate", 1.5, "error_rate: must be between 0 and 1"),
        ("error_rate", "often", "error_rate: must be float"),
        ("error_rate", True, "error_rate: must be float"),
        ("service_ms", -1, "service_ms: must not be negative"),
        ("concurrency_limit", 2.5, "concurrency_limit: must be int or null"),
        ("error_status", 404, "error_status: must be between 500 and 599"),
        ("drip_bytes_per_s", 0, "drip_bytes_per_s: must be more than 0"),
        ("outage", "meteor", "outage: must be one of none, refuse"),
    ],
)
def test_wrong_settings_are_refused_by_name(name: str, value: object, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        CloudSettings().changed({name: value})


def test_the_key_is_not_shown() -> None:
    assert "secret" not in str(CloudSettings(api_key="secret").as_json())


def test_the_same_seed_rolls_the_same_and_a_rate_does_not_shift_the_others() -> None:
    calm, rough = CloudSettings(), CloudSettings(error_rate=0.3, rate_limited_rate=0.2)
    first, second = Dice(5), Dice(5)
    for _ in range(100):
        assert first.fate(calm, 0).round_trip_s == second.fate(rough, 0).round_trip_s


def test_round_trips_have_the_median_and_the_rates_that_are_set() -> None:
    dice, rough = Dice(1), CloudSettings(error_rate=0.3, rate_limited_rate=0.2)
    fates = [dice.fate(rough, 0) for _ in range(4000)]
    assert statistics.median(fate.round_trip_s for fate in fates) == pytest.approx(0.09, rel=0.05)
    limited = sum(fate.refusal is Refusal.RATE_LIMITED for fate in fates) / 4000
    failed = sum(fate.refusal is Refusal.FAILED for fate in fates) / 4000
    assert limited == pytest.approx(0.2, abs=0.03)
    assert failed == pytest.approx(0.8 * 0.3, abs=0.03)


def test_a_full_cloud_refuses_whatever_the_dice_say() -> None:
    full = CloudSettings(concurrency_limit=2)
    assert Dice(0).fate(full, 1).refusal is None
    assert Dice(0).fate(full, 2).refusal is Refusal.RATE_LIMITED
