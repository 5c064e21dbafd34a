"""Callers' rows are batched by a model that was tried, and by no other."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gateway.__main__ import main
from gateway.endpoints.batch_rows.row_trial import Array, Batch
from gateway.endpoints.batch_rows.rows import Rows
from gateway.models import batching, configs, declaration, listing
from gateway.models.adoption import adopt
from gateway.models.adoption.draft import DraftDetails
from gateway.models.declaration import Declaration
from gateway.models.declaration.serving import ServingTarget
from gateway.models.declaration.tensors import Precision
from gateway.models.failures import WrongModel
from gateway.models.registry import UnfitVersion
from gateway.models.registry import graph as pulled
from gateway.models.sessions import Session
from gateway.models.variants import build, evidence, verify
from tests.unit.models import graphs
from tests.unit.models.declared_text import GRAPH
from tests.unit.models.repositories import added, every_byte, of, quiet

DYNAMIC = "dynamic_batching"


def adopted(tmp_path: Path, how: str, given: str | None = None) -> adopt.Adopted:
    (tmp_path / "models").mkdir(exist_ok=True)
    file = graphs.over_rows(tmp_path / "new.onnx", how)
    yours = None
    if given is not None:
        yours = tmp_path / "mine.yaml"
        yours.write_text(given)
    return adopt.adopt(tmp_path / "models", file, DraftDetails("scores"), yours, quiet)


def pbtxt(directory: Path) -> str:
    return (directory / "config.pbtxt").read_text()


@pytest.mark.parametrize("how", graphs.COUPLED)
def test_a_model_whose_rows_influence_each_other_is_served_unbatched(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        done = adopted(tmp_path, how)
    assert done.unbatched is not None
    assert done.unbatched.rows is Rows.COUPLED
    declared = of(done.directory)
    assert not declared.batching.dynamic
    assert all(DYNAMIC not in configs.pbtxt(declared, target) for target in ServingTarget)
    assert DYNAMIC not in pbtxt(done.directory)
    (line,) = (r.getMessage() for r in caplog.records)
    assert line.startswith("scores: its rows are coupled: output score is not the same")
    (found,) = listing.listed(tmp_path / "models")
    assert found.variants[0].rows == "coupled"
    assert verify.verify(done.directory, declared, quiet).ok


@pytest.mark.parametrize("how", graphs.INDEPENDENT)
def test_a_model_whose_rows_do_not_is_batched(how: str, tmp_path: Path) -> None:
    done = adopted(tmp_path, how)
    assert done.unbatched is None
    assert DYNAMIC in pbtxt(done.directory)
    (found,) = listing.listed(tmp_path / "models")
    assert found.variants[0].rows == "independent"


def test_a_model_of_text_is_tried_with_texts_of_unequal_length(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    file = graphs.embedder(tmp_path / "new.onnx")
    given = DraftDetails("texts", tokenizer=graphs.tokenizer(tmp_path / "tokenizer.json"))
    done = adopt.adopt(tmp_path / "models", file, given, None, quiet)
    assert done.unbatched is None
    assert DYNAMIC in pbtxt(done.directory)


def test_padding_that_counts_is_an_influence(tmp_path: Path) -> None:
    """A mean over the pieces without their mask: pieces of one length do not show it."""
    (tmp_path / "models").mkdir()
    file = graphs.embedder(tmp_path / "new.onnx", masked=False)
    given = DraftDetails("texts", tokenizer=graphs.tokenizer(tmp_path / "tokenizer.json"))
    done = adopt.adopt(tmp_path / "models", file, given, None, quiet)
    assert done.unbatched is not None
    assert done.unbatched.rows is Rows.COUPLED
    assert DYNAMIC not in pbtxt(done.directory)


def test_a_width_that_follows_the_longest_row_is_an_influence(tmp_path: Path) -> None:
    """Rows without padding use every column, alone and together."""
    (tmp_path / "models").mkdir()
    file = graphs.trimmed(tmp_path / "new.onnx")
    done = adopt.adopt(tmp_path / "models", file, DraftDetails("widths"), None, quiet)
    assert done.unbatched is not None
    assert done.unbatched.rows is Rows.COUPLED


def test_what_cannot_be_tried_is_served_unbatched(tmp_path: Path) -> None:
    """Zero times whatever was given: no row tells anything."""
    (tmp_path / "models").mkdir()
    file = graphs.scores(tmp_path / "new.onnx", weight=0.0)
    done = adopt.adopt(tmp_path / "models", file, DraftDetails("scores"), None, quiet)
    assert done.unbatched is not None
    assert done.unbatched.rows is Rows.UNTRIED
    assert DYNAMIC not in pbtxt(done.directory)


def test_a_given_declaration_that_says_nothing_of_batching_is_completed(tmp_path: Path) -> None:
    done = adopted(tmp_path, "softmax", GRAPH)
    text = (done.directory / declaration.FILE).read_text()
    assert text.startswith(GRAPH)
    assert yaml.safe_load(text)["batching"] == {"dynamic": False}
    assert DYNAMIC not in pbtxt(done.directory)


@pytest.mark.parametrize("how", ["softmax", "number of rows"])
def test_a_given_declaration_that_wants_batches_is_refused(how: str, tmp_path: Path) -> None:
    with pytest.raises(WrongModel, match=r"influence each other .*Say `batching: \{dynamic: fal"):
        adopted(tmp_path, how, GRAPH + "batching: {delay_us: 100}\n")
    assert every_byte(tmp_path / "models") == {}


def test_the_owners_word_counts_before_the_trial(tmp_path: Path) -> None:
    done = adopted(tmp_path, "softmax", GRAPH + "batching: {rows_independent: true}\n")
    assert done.unbatched is None
    assert DYNAMIC in pbtxt(done.directory)


def wanting_batches(tmp_path: Path, how: str = "softmax") -> tuple[Path, Declaration]:
    """A model whose model.yaml was changed by hand after it was added."""
    done = adopted(tmp_path, how)
    path = done.directory / declaration.FILE
    path.write_text(path.read_text().replace("{dynamic: false}", "{dynamic: true}"))
    return done.directory, declaration.load(path)


def test_verify_says_that_a_model_must_not_batch(tmp_path: Path) -> None:
    directory, declared = wanting_batches(tmp_path)
    found = verify.verify(directory, declared, quiet)
    assert not found.ok
    assert "rows of one batch influence each other (output score" in found.wrong[0]
    assert found.as_json()["variants"][0]["rows"] == "coupled"
    assert evidence.read_evidence(directory / "1")["model.onnx"]["rows"] == "coupled"
    assert evidence.read_evidence(directory / "1")["model.onnx"]["verified"] is False


def test_no_config_with_batching_is_written_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, _ = wanting_batches(tmp_path)
    before = every_byte(directory)
    at = ["--repository", str(tmp_path / "models")]
    assert main(["models", "config", *at]) == 2
    assert "influence each other" in " ".join(capsys.readouterr().err.split())
    assert every_byte(directory) == before
    assert main(["models", "config", "--check", *at]) == 1


def test_nothing_is_built_of_it(tmp_path: Path) -> None:
    directory, declared = wanting_batches(tmp_path)
    with pytest.raises(WrongModel, match="influence each other"):
        build.build(directory, declared, [], quiet)


def test_a_version_from_a_registry_is_tried_where_the_model_here_batches(tmp_path: Path) -> None:
    directory, declared = wanting_batches(tmp_path)
    with pytest.raises(UnfitVersion, match="influence each other"):
        pulled.check(directory / "1", declared)
    unbatched = declared.model_copy(
        update={"batching": declared.batching.model_copy(update={"dynamic": False})}
    )
    pulled.check(directory / "1", unbatched)
    batched = added(tmp_path / "clean")
    pulled.check(batched / "1", of(batched))


def test_the_variant_that_a_target_serves_counts(tmp_path: Path) -> None:
    """8 bits whose scale is that of the whole batch."""
    directory = adopted(tmp_path, "linear").directory
    declared = of(directory)
    graphs.over_rows(directory / "1/model.int8.onnx", "8 bits by the largest of the batch")
    batching.check(directory, declared)
    served = {
        target: given.model_copy(update={"precision": Precision.INT8})
        for target, given in declared.targets.items()
    }
    with pytest.raises(WrongModel, match=r"model\.int8\.onnx: rows of one batch influence"):
        batching.check(directory, declared.model_copy(update={"targets": served}))


def test_sixteen_bits_have_a_tolerance_of_their_own(tmp_path: Path) -> None:
    file = graphs.scores(tmp_path / "m.onnx")
    declared = declaration.parse(GRAPH)
    session = Session(file)

    def rounded(off: float) -> Callable[[Batch], Batch]:
        def run(batch: Batch) -> Batch:
            found: Array = session.run(batch)["score"]
            return {"score": found * (1 + (off if len(found) > 1 else 0))}

        return run

    for precision, off, rows in (
        (Precision.FP32, 5e-4, Rows.INDEPENDENT),
        (Precision.FP32, 5e-3, Rows.COUPLED),
        (Precision.FP16, 5e-3, Rows.INDEPENDENT),
        (Precision.FP16, 3e-2, Rows.COUPLED),
        (Precision.BF16, 3e-2, Rows.INDEPENDENT),
        (Precision.BF16, 2e-1, Rows.COUPLED),
    ):
        assert batching.tried(declared, rounded(off), precision).rows is rows, (precision, off)
