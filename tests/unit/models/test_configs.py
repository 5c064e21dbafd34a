"""The pbtxt of each target: what is generated, and that what is checked in is it."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from gateway.endpoints.triton import repository
from gateway.models import configs, declaration
from gateway.models.declaration.serving import ServingTarget
from tests.unit.models.declared_text import GRAPH, MINIMAL, TEXT

MODELS = Path(__file__).parents[3] / "models"
DECLARED = [path.parent for path in declaration.declared(MODELS)]
SEQUENCES = {"simple_sequence", "simple_dyna_sequence", "simple_string_dyna_sequence"}


def parsed(text: str) -> model_config_pb2.ModelConfig:
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def test_every_model_but_the_examples_of_sequences_is_declared() -> None:
    all_models = {path.parent.name for path in MODELS.glob("*/config.pbtxt")}
    assert {path.name for path in DECLARED} == all_models - SEQUENCES


@pytest.mark.parametrize("directory", DECLARED, ids=lambda path: path.name)
def test_what_is_checked_in_is_what_the_declaration_generates(directory: Path) -> None:
    model = declaration.load(directory / declaration.FILE)
    assert configs.stale(directory, model) == []


def test_one_value_for_a_row_has_an_axis_for_callers_alone() -> None:
    text = MINIMAL.replace(
        "score: {datatype: FP32, dims: [2]}", "label: {datatype: INT64, dims: []}"
    )
    (apart,) = parsed(configs.pbtxt(declaration.parse(text), ServingTarget.EMBEDDED)).output
    assert (list(apart.dims), apart.HasField("reshape")) == ([1], False)  # Triton has no scalars
    batched = declaration.parse(text + "batch: {min: 1, opt: 4, max: 16}\n")
    (label,) = parsed(configs.pbtxt(batched, ServingTarget.EMBEDDED)).output
    assert (list(label.dims), list(label.reshape.shape)) == ([1], [])
    assert label.HasField("reshape")


@pytest.mark.parametrize("directory", DECLARED, ids=lambda path: path.name)
def test_triton_reads_what_is_generated_as_it_is_declared(directory: Path) -> None:
    model = declaration.load(directory / declaration.FILE)
    for target in model.targets:
        config = parsed(configs.pbtxt(model, target))
        assert (config.name, config.max_batch_size) == (model.name, model.max_batch)
        assert [i.name for i in config.input] == list(model.inputs)
        assert [o.name for o in config.output] == list(model.outputs)
        assert repository.stalling_options(config.dynamic_batching) == set()
        assert not config.response_cache.enable
        (group,) = config.instance_group
        cpu = target is ServingTarget.EMBEDDED
        assert group.kind == (group.KIND_CPU if cpu else group.KIND_GPU)


@pytest.mark.parametrize("directory", DECLARED, ids=lambda path: path.name)
def test_callers_see_the_same_tensors_whatever_serves(directory: Path) -> None:
    model = declaration.load(directory / declaration.FILE)
    seen = set()
    for target in model.targets:
        config = parsed(configs.pbtxt(model, target))
        for tensor in config.input:
            tensor.allow_ragged_batch = False  # how rows meet in a batch, not what they are
        seen.add(str((config.input, config.output, config.max_batch_size)))
    assert len(seen) == 1


def test_a_plan_is_named_after_its_precision() -> None:
    text = GRAPH + "precisions: [fp32, fp16]\n"
    text = text.replace(
        "targets:\n", "targets:\n  tensorrt: {backend: tensorrt_plan, precision: fp16}\n"
    )
    config = parsed(configs.pbtxt(declaration.parse(text), ServingTarget.TENSORRT))
    assert (config.backend, config.default_model_filename) == ("tensorrt_plan", "model.fp16.plan")


def test_a_variant_behind_the_python_backend_is_a_parameter() -> None:
    text = TEXT.replace("{backend: python}", "{backend: python, precision: fp16}")
    model = declaration.parse(text + "precisions: [fp32, fp16]\n")
    config = parsed(configs.pbtxt(model, ServingTarget.EMBEDDED))
    assert config.parameters["graph"].string_value == "model.fp16.onnx"
    assert not config.default_model_filename


def test_batching_is_plain_unless_the_declaration_says_more() -> None:
    plain = parsed(configs.pbtxt(declaration.parse(GRAPH), ServingTarget.EMBEDDED))
    assert plain.HasField("dynamic_batching")
    assert plain.dynamic_batching.ListFields() == []
    more = GRAPH + "batching: {preferred: [8, 16], delay_us: 200}\n"
    told = parsed(configs.pbtxt(declaration.parse(more), ServingTarget.EMBEDDED)).dynamic_batching
    assert list(told.preferred_batch_size) == [8, 16]
    assert told.max_queue_delay_microseconds == 200
    unbatched = parsed(configs.pbtxt(declaration.parse(MINIMAL), ServingTarget.EMBEDDED))
    assert not unbatched.HasField("dynamic_batching")


def test_a_parameter_is_quoted() -> None:
    text = MINIMAL + "parameters: {told: 'a \"b\" \\ c'}\n"
    config = parsed(configs.pbtxt(declaration.parse(text), ServingTarget.EMBEDDED))
    assert config.parameters["told"].string_value == 'a "b" \\ c'


def test_configs_are_written_once_and_what_no_target_wants_goes(tmp_path: Path) -> None:
    model = declaration.parse(MINIMAL)
    gone = tmp_path / "configs" / "tensorrt.pbtxt"
    gone.parent.mkdir()
    gone.write_text("of a target that was dropped")
    assert configs.write(tmp_path, model) == [tmp_path / "config.pbtxt", gone]
    assert configs.write(tmp_path, model) == []
    assert not gone.exists()


def test_as_many_versions_are_loaded_as_the_declaration_says() -> None:
    one, two = (declaration.parse(MINIMAL + more) for more in ("", "loaded_versions: 2\n"))
    policies = [parsed(configs.pbtxt(d, ServingTarget.EMBEDDED)).version_policy for d in (one, two)]
    assert [policy.latest.num_versions for policy in policies] == [0, 2]
