"""Traces become the calls of the published simulations, number by number."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from gateway.simulate.bound import least_cost
from gateway.simulate.workload import MODES, TraceError, build, read_trace
from tests.unit.simulate.traces import bursty, write

_RIG = Path(__file__).parents[3].parent / "shared" / "rigs" / "routing_workload.py"


@pytest.fixture(scope="module")
def rig() -> ModuleType:
    """The workload and the bound that the published figures were made with."""
    if not _RIG.exists():
        pytest.skip("the rig of the published figures is not in this checkout")
    spec = importlib.util.spec_from_file_location("routing_workload", _RIG)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("mode", "load"), [("ms", 1.5), ("s", 2.0)])
def test_calls_and_bound_are_those_of_the_published_figures(
    rig: ModuleType, tmp_path: Path, mode: str, load: float
) -> None:
    path = write(bursty(600), tmp_path / "bursty.csv")
    theirs = rig.build(str(path), mode, load, 3)
    ours = build(read_trace(path), MODES[mode], load, 3)
    for name, column in (
        ("t", ours.arrive_s), ("work", ours.work), ("gpu_s", ours.gpu_s), ("price", ours.price),
        ("D", ours.budget_s), ("tier", ours.tier), ("restricted", ours.restricted),
        ("penalty", ours.penalty), ("cloud_s", ours.cloud_s), ("alternative", ours.alternative),
    ):  # fmt: skip
        assert np.array_equal(theirs[name], column), name
    assert least_cost(ours) == pytest.approx(rig.bound(theirs), rel=1e-6)


@pytest.mark.parametrize("mode", sorted(MODES))
def test_time_is_compressed_until_the_load_is_reached(mode: str) -> None:
    calls = build(bursty(), MODES[mode], 1.5, 0)
    capacity_s = calls.arrive_s[-1] * MODES[mode].servers
    assert calls.gpu_s.sum() / capacity_s == pytest.approx(1.5)


def test_a_seed_draws_the_same_calls_again_and_another_one_does_not() -> None:
    first, again, other = (build(bursty(), MODES["ms"], 1.5, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.cloud_s, again.cloud_s)
    assert not np.array_equal(first.cloud_s, other.cloud_s)


def test_another_number_of_servers_faces_the_same_arrivals() -> None:
    one, four = (build(bursty(), MODES["ms"], 1.5, 0, servers) for servers in (1, 4))
    assert np.array_equal(one.arrive_s, four.arrive_s)
    assert four.servers == 4


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("seconds,in,out\n", "at least two arrivals"),
        ("seconds,in,out\n1,2,3\n", "at least two arrivals"),
        ("seconds,in,out\n1,2,3\n2,4\n", ":3: not three numbers"),
        ("seconds,in,out\n1,2,3\n2,x,4\n", ":3: not three numbers"),
        ("seconds,in,out\n1,2,3\n2,-1,4\n", ":3: .* not negative"),
        ("seconds,in,out\n1,2,3\nnan,1,4\n", ":3: .* finite"),
        ("seconds,in,out\n1,2,3\n5,1,4\n3,1,4\n", "earlier than the one before"),
        ("seconds,in,out\n1,2,3\n1,1,4\n", "same instant"),
    ],
)
def test_a_bad_trace_is_refused_with_its_place(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TraceError, match=complaint):
        read_trace(path)


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="No such file"):
        read_trace(tmp_path / "nothing.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x81\n\xff")
    with pytest.raises(TraceError, match="not a text file"):
        read_trace(tmp_path / "binary.csv")
