"""Variants of a model: made beside it, compared, and moved there when all are whole."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.models import declaration, versions
from gateway.models.adoption import adopt, draft
from gateway.models.failures import GateClosed, ModelCommandFailed, WrongModel
from gateway.models.variants import build, evidence
from gateway.models.variants.engines import Built, Loaded, ShapeProfile
from tests.unit.models import graphs
from tests.unit.models.declared_text import GRAPH, TEXT
from tests.unit.models.repositories import added, every_byte, of, quiet, with_gate

ROOT = Path(__file__).parents[3]


class Press:
    """A builder that writes down what it was asked for."""

    name, suffix = "press", ".rtx"

    def __init__(self, fails: bool = False) -> None:
        self.asked: list[tuple[str, Mapping[str, ShapeProfile]]] = []
        self._fails = fails

    def missing(self) -> str | None:
        return None

    def build(self, graph: Path, profiles: Mapping[str, ShapeProfile], into: Path) -> Built:
        if self._fails and self.asked:
            raise WrongModel("the press is stuck")
        self.asked.append((graph.name, profiles))
        into.write_bytes(b"pressed" * 300)
        return Built(into, self.name, "1", profiles)

    def load(self, engine: Path) -> Loaded:
        return Loaded(why_not="a press runs nothing")


def test_a_model_is_optimised_halved_and_compiled_in_every_precision(tmp_path: Path) -> None:
    directory, press = added(tmp_path / "models"), Press()
    made = build.build(directory, of(directory), [press], quiet)
    names = ["model.optimised.onnx", "model.fp16.onnx", "model.fp32.rtx", "model.fp16.rtx"]
    assert [m.file for m in made.files] == names
    assert all((directory / "1" / name).exists() for name in names)
    assert [name for name, _ in press.asked] == ["model.onnx", "model.fp16.onnx"]
    known = evidence.read_evidence(directory / "1")
    assert known["model.fp16.onnx"]["verified"] is True
    assert known["model.fp32.rtx"]["engine"]["profiles"] == {"rows": [[1, 4], [8, 4], [32, 4]]}
    assert "verified" not in known["model.fp32.rtx"]  # nobody has run it


def test_profiles_are_the_declared_ranges() -> None:
    (profile,) = build.profiles(declaration.parse(TEXT)).values()
    assert profile == ShapeProfile((1, 1), (4, 16), (16, 64))
    (profile,) = build.profiles(declaration.parse(GRAPH)).values()
    assert profile == ShapeProfile((1, 4), (4, 4), (16, 4))


def test_an_engine_needs_a_range_for_every_free_size() -> None:
    with pytest.raises(WrongModel, match="name it and add to axes"):
        build.profiles(declaration.parse(GRAPH.replace("[4]", "[-1]")))


def test_a_compiler_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    before = every_byte(tmp_path / "models")
    with pytest.raises(WrongModel, match="stuck"):
        build.build(directory, of(directory), [Press(fails=True)], quiet)
    assert every_byte(tmp_path / "models") == before
    assert not list((tmp_path / "models").rglob(".staging-*"))


def test_a_variant_that_is_too_far_off_is_not_kept(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    path = directory / declaration.FILE
    path.write_text(path.read_text() + "verify: {tolerance: {fp32: 1.0e-4, fp16: 1.0e-9}}\n")
    before = every_byte(tmp_path / "models")
    with pytest.raises(GateClosed, match=r"model.fp16.onnx is off by .* take fp16 out"):
        build.build(directory, of(directory), [], quiet)
    assert every_byte(tmp_path / "models") == before


def test_a_variant_past_the_accuracy_gate_is_not_kept(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    gate = "accuracy: {metric: pairwise_spearman, data: rows.npz, largest_loss: 0.0}\n"
    declared = with_gate(directory, gate)
    before = every_byte(tmp_path / "models")
    with pytest.raises(GateClosed, match=r"fp16 loses .* of pairwise_spearman"):
        build.build(directory, declared, [], quiet)
    assert every_byte(tmp_path / "models") == before


def test_a_variant_whose_rows_influence_each_other_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    file = graphs.cut_in_halves(tmp_path / "new.onnx")
    given = draft.DraftDetails("scores")
    done = adopt.adopt(tmp_path / "models", file, given, None, quiet, [])
    assert done.unbatched is None
    assert "fp16.onnx: rows of one batch influence each other" in done.built.left_out["fp16"]
    assert [p.value for p in of(done.directory).precisions] == ["fp32"]
    path = done.directory / declaration.FILE
    path.write_text(path.read_text().replace("precisions: [fp32]", "precisions: [fp32, fp16]"))
    before = every_byte(done.directory)
    with pytest.raises(GateClosed, match="rows of one batch influence each other"):
        build.build(done.directory, of(done.directory), [], quiet)
    assert every_byte(done.directory) == before


def test_a_compiler_that_nobody_named_is_left_out_where_it_fails(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    file, given = graphs.scores(tmp_path / "new.onnx"), draft.DraftDetails("scores")
    press = Press(fails=True)
    with pytest.raises(WrongModel, match="the press is stuck"):
        adopt.adopt(tmp_path / "models", file, given, None, quiet, [press])
    assert every_byte(tmp_path / "models") == {}
    done = adopt.adopt(tmp_path / "models", file, given, None, quiet, [press], {"press"})
    assert done.built.left_out == {"press": "the press is stuck"}
    assert {m.file for m in done.built.files} >= {"model.optimised.onnx", "model.fp16.onnx"}


def test_what_an_interrupted_run_left_is_swept(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    left = directory / "1/.staging-killed"
    left.mkdir()
    (left / "model.fp16.onnx").write_bytes(b"half")
    build.build(directory, of(directory), [], quiet)
    assert not left.exists()


def test_what_another_run_is_at_stays(tmp_path: Path) -> None:
    with versions.staging(tmp_path) as staged:
        versions.swept(tmp_path)
        assert staged.is_dir()
    assert not staged.exists()


FULL = """
import resource, sys
from pathlib import Path
from tests.unit.models.repositories import of, quiet
from tests.unit.models.test_build import Press
from gateway.models.adoption import adopt, draft
from gateway.models.variants import build
from gateway.models.failures import ModelCommandFailed
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
directory = Path(sys.argv[1])
declared = of(directory)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    if sys.argv[3] == "build":
        build.build(directory, declared, [Press()], quiet)
    else:
        file = Path(sys.argv[4])
        adopt.adopt(directory.parent, file, draft.DraftDetails(sys.argv[3]), None, quiet)
except ModelCommandFailed as exc:
    print(exc)
"""


@pytest.mark.parametrize(
    ("most_bytes", "doing"), [(600, "build"), (1970, "build"), (600, "scores"), (1500, "another")]
)
def test_a_full_disk_changes_nothing_and_is_told(
    most_bytes: int, doing: str, tmp_path: Path
) -> None:
    """No file of the process may grow past that: less than any variant has; more than the first
    one, which ONNX Runtime writes, and less than the engine, which is written here. Then a second
    version, and another model."""
    directory = added(tmp_path / "models")
    file = graphs.scores(tmp_path / "new.onnx")
    before = every_byte(tmp_path / "models")
    ran = subprocess.run(
        [sys.executable, "-c", FULL, str(directory), str(most_bytes), doing, str(file)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search("is there room for it|there is no room to write it", ran.stdout), ran.stderr
    assert "hat is served is as it was" in ran.stdout
    assert every_byte(tmp_path / "models") == before
    assert not list((tmp_path / "models").rglob(".staging-*"))


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with (
        pytest.raises(ModelCommandFailed, match="as it was"),
        versions.staging(tmp_path / "nowhere"),
    ):
        pass


def test_a_graph_whose_outputs_are_not_rows_is_refused(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    graphs.summing(directory / "1/model.onnx")
    with pytest.raises(WrongModel, match="its first axis must be the batch"):
        build.build(directory, of(directory), [], quiet)
