"""What was measured outlasts an interruption, and counts only for the files it was measured of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.models import configs
from gateway.models.declaration import FILE
from gateway.models.declaration.serving import ServingTarget
from gateway.models.declaration.tensors import Precision
from gateway.models.failures import WrongModel
from gateway.models.profiling import LoadPoint
from gateway.models.profiling.search import ChoiceTrial, ServingChoice
from gateway.models.profiling.search.record import SearchPlan, SearchRecord
from gateway.models.profiling.search.run import keep
from gateway.models.profiling.search.trial import space
from tests.unit.models.repositories import added, of

PLAN = SearchPlan()
CHOICE = ServingChoice(Precision.FP16, 2, 1, 16, True, (4, 8), 100)
TRIAL = ChoiceTrial(CHOICE, (LoadPoint(1, 10.0, 0.01, 0.02, 1.0),))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = added(tmp_path / "models")
    SearchRecord.opened(directory, PLAN).add(TRIAL)
    return directory


def test_the_next_search_goes_on_with_what_was_measured(directory: Path) -> None:
    record = SearchRecord.opened(directory, PLAN)
    assert (record.reused, record.trials) == (1, {CHOICE: TRIAL})


def test_a_changed_file_makes_it_void(directory: Path) -> None:
    (directory / "1/model.onnx").write_bytes(b"another")
    assert SearchRecord.opened(directory, PLAN).trials == {}


def test_so_does_another_load(directory: Path) -> None:
    assert SearchRecord.opened(directory, replace(PLAN, most_callers=8)).trials == {}


def test_more_time_does_not(directory: Path) -> None:
    assert SearchRecord.opened(directory, replace(PLAN, seconds=1.0)).trials


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"basis": {}, "trials": [{}]}'])
def test_what_cannot_be_read_is_measured_again(directory: Path, content: str) -> None:
    (directory / "search.json").write_text(content)
    assert SearchRecord.opened(directory, PLAN).trials == {}


def test_the_choice_is_declared_and_the_configs_follow(directory: Path) -> None:
    before = (directory / FILE).read_text()
    declared = of(directory)
    choice = replace(CHOICE, precision=Precision.FP16, max_batch=8)
    changed = keep(directory, declared, choice)
    after = of(directory)
    assert ServingChoice.from_declaration(after) == choice
    assert configs.stale(directory, after) == []
    assert {directory / FILE, directory / "config.pbtxt"} <= set(changed)
    assert before.splitlines()[:6] == (directory / FILE).read_text().splitlines()[:6]
    assert "count: 2" in (directory / "config.pbtxt").read_text()
    assert keep(directory, after, ServingChoice.from_declaration(declared))
    assert of(directory).targets == declared.targets


def test_a_declaration_that_cannot_be_changed_stays(directory: Path) -> None:
    path = directory / FILE
    path.write_text(path.read_text() + "...\n")  # behind which nothing is read
    before = path.read_text()
    with pytest.raises(WrongModel, match=r"write into it: .*batching: \{"):
        keep(directory, of(directory), CHOICE)
    assert path.read_text() == before


def test_the_space_has_the_variants_that_are_there(directory: Path) -> None:
    assert space(directory, of(directory), 2, ()).precisions == (Precision.FP32,)
    (directory / "1/model.fp16.onnx").write_bytes((directory / "1/model.onnx").read_bytes())
    both = space(directory, of(directory), 2, (4,))
    assert both.precisions == (Precision.FP32, Precision.FP16)
    assert (both.coupled, both.batches) == (frozenset(), (4,))


def test_the_declared_choice_serves_the_config_that_is_there(directory: Path) -> None:
    declared = of(directory)
    served = ServingChoice.from_declaration(declared).applied(declared)
    embedded = ServingTarget.EMBEDDED
    assert configs.pbtxt(served, embedded) == configs.pbtxt(declared, embedded)
