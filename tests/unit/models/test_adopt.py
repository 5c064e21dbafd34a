"""An ONNX file becomes a model, or its next version; or nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.config import ConfigError
from gateway.models import configs, declaration, versions
from gateway.models.adoption import adopt
from gateway.models.adoption.draft import DraftDetails
from gateway.models.failures import GateClosed, WrongModel
from gateway.models.registry import installing, workshop
from gateway.models.variants import verify
from tests.unit.models import graphs
from tests.unit.models.declared_text import GRAPH
from tests.unit.models.repositories import added, every_byte, of, quiet


def test_a_new_file_becomes_a_model_that_is_verified(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    declared = of(directory)
    assert configs.stale(directory, declared) == []
    assert declared.canary is not None
    assert verify.verify(directory, declared, quiet).ok
    assert {p.name for p in (directory / "1").iterdir()} >= {"model.onnx", "model.py", "runtime.py"}
    assert not list((tmp_path / "models").glob(".staging-*"))


def test_a_draft_says_what_is_to_be_completed(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    assert "Complete about, licence and source" in (directory / declaration.FILE).read_text()


def test_a_tokenizer_makes_a_model_of_text_with_embeddings(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    file = graphs.embedder(tmp_path / "new.onnx")
    given = DraftDetails("texts", tokenizer=graphs.tokenizer(tmp_path / "tokenizer.json"))
    done = adopt.adopt(tmp_path / "models", file, given, None, quiet)
    declared = of(done.directory)
    assert (declared.task, list(declared.inputs)) == ("embeddings", ["text"])
    assert declared.inputs["text"].text
    assert list(declared.outputs) == ["embedding", "num_input_tokens"]
    assert list(declared.graph_outputs) == ["embedding"]
    assert (done.directory / "1/text_pieces.py").exists()
    assert list(declared.graph_inputs["input_ids"].between or ()) == [0, len(graphs.WORDS) - 1]
    assert adopt.declared_settings(declared)["texts"]["text_inputs"] == ["text"]


def test_its_owner_can_give_the_declaration(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    given = tmp_path / "mine.yaml"
    given.write_text(GRAPH.replace("licence: Apache-2.0", "licence: ours"))
    file = graphs.scores(tmp_path / "new.onnx")
    done = adopt.adopt(tmp_path / "models", file, DraftDetails("scores"), given, quiet)
    assert not done.drafted
    assert of(done.directory).licence == "ours"


def test_a_second_file_is_the_next_version_and_the_first_one_stays(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    (directory / "1/model.fp16.onnx").write_bytes(b"of the first graph")
    before = every_byte(directory)
    added(tmp_path / "models", seed=2)
    assert versions.versions(directory) == [1, 2]
    assert every_byte(directory).items() >= before.items()
    assert not (directory / "2/model.fp16.onnx").exists()


def test_each_version_has_its_own_canary_and_samples(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    path = directory / declaration.FILE
    path.write_text(path.read_text().replace("licence:", "# ours\nlicence:"))
    added(tmp_path / "models", seed=2)
    first, second = versions.declared(directory, 1), versions.declared(directory, 2)
    assert first.canary is not None
    assert second.canary is not None
    assert first.canary.inputs == second.canary.inputs
    assert first.canary.outputs != second.canary.outputs
    assert first.source.sha256 != second.source.sha256
    assert "# ours" in versions.declaration_file(directory, 2).read_text()
    assert verify.verify(directory, second, quiet).ok
    (directory / "2").rename(tmp_path / "taken out")
    assert verify.verify(directory, first, quiet).ok


def test_a_number_that_was_rolled_back_is_not_given_again(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    added(tmp_path / "models", seed=2)
    with workshop.opened(tmp_path / "models", "scores") as shop:
        installing.roll_back(shop, None, [])
    added(tmp_path / "models", seed=3)
    assert versions.versions(directory) == [1, 3]
    with workshop.opened(tmp_path / "models", "scores") as shop:
        installing.roll_back(shop, 2, [])
    assert versions.versions(directory) == [1, 2]


def test_a_word_on_its_rows_is_not_carried_to_another_graph(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    with (directory / declaration.FILE).open("a") as file:
        file.write("batching: {rows_independent: true, delay_us: 100}\n")
    added(tmp_path / "models", seed=2)
    batching = versions.declared(directory).batching
    assert (batching.rows_independent, batching.delay_us) == (False, 100)


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "is no whole ONNX model"),
    "truncated": (
        lambda path: path.write_bytes(graphs.scores(path).read_bytes()[:500]),
        "is no whole ONNX model",
    ),
    "HTML": (lambda path: path.write_bytes(b"<html>not found</html>"), "is no whole ONNX model"),
    "another width": (lambda path: graphs.scores(path, columns=5), r"is \[5\] in the graph"),
    "more outputs": (lambda path: graphs.scores(path, outputs=3), r"is \[3\] in the graph"),
    "one batch size": (lambda path: graphs.scores(path, batch=1), "has a batch of 1 alone"),
    "another model": (graphs.embedder, "input input_ids is in the graph and not declared"),
    "rows added up": (graphs.summing, "its first axis must be the batch"),
}


@pytest.mark.parametrize("how", REFUSED)
def test_a_bad_file_leaves_the_version_that_serves_untouched(how: str, tmp_path: Path) -> None:
    added(tmp_path / "models")
    make, told = REFUSED[how]
    file = tmp_path / "bad.onnx"
    make(file)
    before = every_byte(tmp_path / "models")
    with pytest.raises(WrongModel, match=told):
        adopt.adopt(tmp_path / "models", file, DraftDetails("scores"), None, quiet)
    assert every_byte(tmp_path / "models") == before
    assert not list((tmp_path / "models").glob(".staging-*"))


def test_weights_with_another_answer_to_the_canary_are_refused(tmp_path: Path) -> None:
    given = added(tmp_path / "models") / declaration.FILE
    before = every_byte(tmp_path / "models")
    file = graphs.scores(tmp_path / "other.onnx", seed=2)
    with pytest.raises(GateClosed, match=r"canary: output score begins with .*nothing was added"):
        adopt.adopt(tmp_path / "models", file, DraftDetails("scores"), given, quiet)
    assert every_byte(tmp_path / "models") == before


def test_a_declaration_with_another_interface_is_another_models(tmp_path: Path) -> None:
    text = (added(tmp_path / "models") / declaration.FILE).read_text()
    given = tmp_path / "mine.yaml"
    given.write_text(text.replace("max: 32", "max: 64"))
    before = every_byte(tmp_path / "models")
    file = graphs.scores(tmp_path / "other.onnx", seed=2)
    with pytest.raises(WrongModel, match="declares other max_batch than the version before"):
        adopt.adopt(tmp_path / "models", file, DraftDetails("scores"), given, quiet)
    assert every_byte(tmp_path / "models") == before


def test_a_declaration_that_is_wrong_adds_nothing(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    given = tmp_path / "mine.yaml"
    given.write_text(GRAPH.replace("about:", "abuot:"))
    file = graphs.scores(tmp_path / "new.onnx")
    with pytest.raises(ConfigError, match="did you mean about"):
        adopt.adopt(tmp_path / "models", file, DraftDetails("scores"), given, quiet)
    assert every_byte(tmp_path / "models") == {}


def test_a_tokenizer_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "tokenizer.json").write_text("{}")
    given = DraftDetails("texts", tokenizer=tmp_path / "tokenizer.json")
    file = graphs.embedder(tmp_path / "new.onnx")
    with pytest.raises(WrongModel, match=r"is no tokenizer\.json"):
        adopt.adopt(tmp_path / "models", file, given, None, quiet)


def test_a_tokenizer_before_a_graph_of_numbers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    given = DraftDetails("scores", tokenizer=graphs.tokenizer(tmp_path / "tokenizer.json"))
    file = graphs.scores(tmp_path / "new.onnx")
    with pytest.raises(WrongModel, match="a tokenizer is for graphs whose inputs are among"):
        adopt.adopt(tmp_path / "models", file, given, None, quiet)


def test_a_graph_without_a_batch_axis_is_served_without_batches(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    file = graphs.scores(tmp_path / "new.onnx", batch=1)
    done = adopt.adopt(tmp_path / "models", file, DraftDetails("scores"), None, quiet)
    declared = of(done.directory)
    assert (declared.max_batch, declared.inputs["rows"].dims) == (0, (1, 4))
