"""What a profile says of a model's batches, and what the gateway makes of it."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.models.profiling import (
    FILE,
    BadProfile,
    BatchPoint,
    LoadPoint,
    Machine,
    ModelProfile,
    fitted,
    read,
    write,
)
from gateway.models.profiling.priors import measured
from gateway.scheduling.queues import Prior

HERE = Machine("a machine", 2)


def point(rows: int, p50_s: float) -> BatchPoint:
    return BatchPoint(rows, p50_s, rows / p50_s)


def profile(fixed_s: float = 0.004, per_row_s: float = 0.001) -> ModelProfile:
    batches = tuple(point(n, fixed_s + per_row_s * n) for n in (1, 2, 4, 8, 16))
    loads = (LoadPoint(32, 400.0, 0.08, 0.1, 16.0),)
    return ModelProfile(
        "m", HERE, "CPUExecutionProvider", "model.onnx", 2, 12, fixed_s, per_row_s, 0.0,
        batches, loads,
    )  # fmt: skip


@given(a=st.floats(1e-5, 1.0), b=st.floats(1e-6, 1.0))
def test_the_fit_finds_what_a_batch_costs_and_what_a_row(a: float, b: float) -> None:
    fixed_s, per_row_s, error = fitted([point(n, a + b * n) for n in (1, 2, 4, 8, 16, 32)])
    assert fixed_s + per_row_s * 8 == pytest.approx(a + b * 8, rel=1e-3)
    assert error < 1e-3


@given(times=st.lists(st.floats(1e-4, 10.0), min_size=1, max_size=7))
def test_no_fit_promises_a_batch_for_nothing(times: list[float]) -> None:
    fixed_s, per_row_s, _ = fitted([point(2**at, t) for at, t in enumerate(times)])
    assert fixed_s >= 0
    assert per_row_s >= 0
    assert fixed_s + per_row_s > 0


def test_larger_batches_that_take_less_are_noise_and_no_speed() -> None:
    fixed_s, per_row_s, _ = fitted([point(1, 0.003), point(2, 0.002), point(4, 0.001)])
    assert per_row_s == 0.0
    assert fixed_s == pytest.approx(3 / (1000 + 500 + 1000 / 3))


def test_the_best_batch_is_the_smallest_with_nearly_all_of_the_throughput() -> None:
    assert profile(0.001, 0.001).best_batch == 8  # 889 a second; 941 with 16
    assert profile(0.0, 0.001).best_batch == 1


@pytest.mark.parametrize(
    ("fixed_ms", "per_row_ms", "delay_us"),
    [(0.7, 0.002, 400), (1.0, 0.08, 500), (4.0, 0.1, 500), (4.0, 3.4, 0), (0.3, 1.2, 0)],
)
def test_triton_waits_for_rows_only_where_they_cost_next_to_nothing(
    fixed_ms: float, per_row_ms: float, delay_us: int
) -> None:
    assert profile(fixed_ms / 1000, per_row_ms / 1000).delay_us == delay_us


def test_a_model_without_batches_has_nothing_to_wait_for() -> None:
    assert replace(profile(0.01, 0.0), batches=(point(1, 0.01),)).delay_us == 0


def test_a_profile_is_read_as_it_was_written(tmp_path: Path) -> None:
    write(tmp_path / FILE, profile())
    assert read(tmp_path / FILE) == profile()


@pytest.mark.parametrize(
    "change",
    [
        {"fixed_s": "soon"},
        {"fixed_s": -1.0},
        {"fixed_s": 0.0, "per_row_s": 0.0},
        {"fixed_s": float("nan")},
        {"per_row_s": float("inf")},
        {"machine": "this one"},
        {"batches": [{"rows": 1}]},
        {"another": 1},
    ],
)
def test_what_is_no_profile_says_to_measure_again(
    tmp_path: Path, change: dict[str, object]
) -> None:
    (tmp_path / FILE).write_text(json.dumps(asdict(profile()) | change))
    with pytest.raises(BadProfile, match="measure it again"):
        read(tmp_path / FILE)


def repository(at: Path, **profiles: str) -> Path:
    for model, text in profiles.items():
        (at / model).mkdir()
        (at / model / FILE).write_text(text)
    return at


def test_what_was_measured_on_this_machine_is_what_the_queue_begins_with(tmp_path: Path) -> None:
    here = json.dumps(asdict(profile()))
    elsewhere = json.dumps(asdict(replace(profile(), machine=Machine("a machine", 64))))
    found = measured(repository(tmp_path, here=here, elsewhere=elsewhere), HERE)
    assert found == {"here": Prior(0.004, 0.001)}


def test_a_broken_profile_is_told_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert measured(repository(tmp_path, broken="{"), HERE) == {}
    assert f"broken/{FILE}: is no profile" in caplog.text
