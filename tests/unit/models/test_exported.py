"""What exporters write beside a plain graph: maps, files of weights, folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from gateway.models import graph
from gateway.models.adoption import adopt, exported
from gateway.models.adoption.draft import DraftDetails
from gateway.models.adoption.extents import UnknownExtents
from gateway.models.declaration import FILE
from gateway.models.declaration.tensors import Precision
from gateway.models.failures import WrongModel
from gateway.models.variants import precision
from tests.scenarios.exports import saved, scikit_learn, zoo
from tests.unit.models import graphs
from tests.unit.models.repositories import every_byte, of, quiet


def adopted(tmp_path: Path, file: Path, name: str = "scores") -> Path:
    (tmp_path / "models").mkdir(exist_ok=True)
    return adopt.adopt(tmp_path / "models", file, DraftDetails(name), None, quiet).directory


def test_a_map_of_scores_becomes_a_column_for_each_class(tmp_path: Path) -> None:
    file = scikit_learn.CASES["maps_of_words"].write(tmp_path / "new.onnx")
    directory = adopted(tmp_path, file)
    text = (directory / FILE).read_text()
    assert "# output_probability: a column for each of no, yes, in this order\n" in text
    assert of(directory).outputs["output_probability"].dims == (2,)
    assert "ZipMap" not in {
        n.op_type for n in onnx.load(str(directory / "1/model.onnx")).graph.node
    }


def test_a_graph_without_maps_stays_byte_for_byte(tmp_path: Path) -> None:
    file = graphs.scores(tmp_path / "new.onnx")
    assert (adopted(tmp_path, file) / "1/model.onnx").read_bytes() == file.read_bytes()


def test_weights_beside_the_graph_are_those_of_its_version(tmp_path: Path) -> None:
    write = zoo.CASES["weights_beside"].write
    directory = adopted(tmp_path, write(tmp_path / "new.onnx"))
    assert (directory / "1/new.onnx.data").exists()
    (tmp_path / "next").mkdir()
    adopted(tmp_path, write(tmp_path / "next/other.onnx"))
    assert {p.name for p in (directory / "2").glob("*.data")} == {"other.onnx.data"}
    assert {p.name for p in (directory / "1").glob("*.data")} == {"new.onnx.data"}


def test_weights_in_a_file_of_another_purpose_are_refused(tmp_path: Path) -> None:
    file = graphs.scores(tmp_path / "new.onnx")
    held = onnx.load(str(file))
    onnx.save(held, str(file), save_as_external_data=True, location="model.py", size_threshold=0)
    with pytest.raises(WrongModel, match=r"has weights in a file called model\.py"):
        adopted(tmp_path, file)
    assert every_byte(tmp_path / "models") == {}


def large(path: Path) -> Path:
    """2.4 GB of weights in a sparse file, of which nothing is on the disk."""
    count = 600_000_000
    tensor = TensorProto(
        name="weights", data_type=TensorProto.FLOAT, dims=[count],
        data_location=TensorProto.EXTERNAL,
        external_data=[onnx.StringStringEntryProto(key="location", value="weights.bin")],
    )  # fmt: skip
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", count]) for n in "xy")
    made = helper.make_graph([helper.make_node("Add", ["x", "weights"], ["y"])], "large", [x], [y])
    made.initializer.append(tensor)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    with path.with_name("weights.bin").open("wb") as weights:
        weights.truncate(4 * count)
    return path


def test_more_than_one_file_can_hold_is_read_and_not_written_in_16_bits(tmp_path: Path) -> None:
    file = large(tmp_path / "large.onnx")
    export = exported.read(file, None)
    assert graph.external_files(export.model) == ["weights.bin"]
    assert not export.has_halves()
    with pytest.raises(WrongModel, match=r"has 2288 MiB with its weights, and one ONNX file holds"):
        precision.written(file, tmp_path / "half.onnx", Precision.FP16)


PRECISIONS = {
    "float": Precision.FP32,
    "float16": Precision.FP16,
    "brain_weights": Precision.BF16,
    "truths": Precision.FP32,
}


@pytest.mark.parametrize("name", PRECISIONS)
def test_a_graph_is_labelled_by_its_weights(name: str, tmp_path: Path) -> None:
    model = graph.read(zoo.CASES[name].write(tmp_path / "new.onnx"))
    assert graph.precision(model) is PRECISIONS[name]


def test_a_graph_in_8_bits_is_labelled_so_and_compared_as_such(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    held = {
        "weights": rng.integers(-127, 127, (4, 3)).astype(np.int8),
        "scale": np.array(0.02, np.float32),
        "zero": np.array(0, np.int8),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["bits"]),
        helper.make_node("DequantizeLinear", ["bits", "scale", "zero"], ["rounded"]),
        helper.make_node("DequantizeLinear", ["weights", "scale", "zero"], ["wide"]),
        helper.make_node("MatMul", ["rounded", "wide"], ["y"]),
    ]
    file = saved(tmp_path / "new.onnx", nodes, zoo.ROWS, zoo.SCORES, held)
    declared = of(adopted(tmp_path, file))
    assert declared.graph is not None
    assert (declared.graph.precision, declared.precisions) == (Precision.INT8, (Precision.INT8,))


def test_a_folder_is_that_of_its_one_graph(tmp_path: Path) -> None:
    folder = tmp_path / "exported"
    (folder / "onnx").mkdir(parents=True)
    graphs.tokenizer(folder / "tokenizer.json")
    graphs.embedder(folder / "onnx/encoder.onnx")
    assert exported.read(folder, None).tokenizer == folder / "tokenizer.json"
    graphs.embedder(folder / "onnx/other.onnx")
    with pytest.raises(WrongModel, match=r"several graphs \(encoder.onnx, other.onnx\); name one"):
        exported.read(folder, None)
    graphs.embedder(folder / "onnx/model.onnx")
    assert exported.read(folder, None).file == folder / "onnx/model.onnx"


def test_a_draft_without_its_sizes_is_kept_and_completed(tmp_path: Path) -> None:
    file = zoo.CASES["one_longer"].write(tmp_path / "new.onnx")
    kept = tmp_path / "new.model.yaml"
    with pytest.raises(UnknownExtents, match="complete it and give it with --declaration"):
        adopted(tmp_path, file)
    assert every_byte(tmp_path / "models") == {}
    text = kept.read_text()
    for axis, size in (("past", 7), ("total", 8)):
        text = text.replace(
            f"{axis}: {{min: 1, opt: 32, max: 256}}",
            f"{axis}: {{min: {size}, opt: {size}, max: {size}}}",
        )
    kept.write_text(text)
    with pytest.raises(UnknownExtents):
        adopted(tmp_path, file)
    assert kept.read_text() == text
    done = adopt.adopt(tmp_path / "models", file, DraftDetails("scores"), kept, quiet)
    assert of(done.directory).axes["total"].max == 8


def test_a_graph_whose_answers_are_random_is_refused(tmp_path: Path) -> None:
    file = graphs.noisy(tmp_path / "new.onnx")
    with pytest.raises(WrongModel, match="output score has two answers to the same input"):
        adopted(tmp_path, file)
    assert every_byte(tmp_path / "models") == {}
    assert not (tmp_path / "new.model.yaml").exists()
