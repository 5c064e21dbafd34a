"""What a graph runs on, with how many threads, and that the server tells what is so."""

from __future__ import annotations

import filecmp
import json
from pathlib import Path
from types import ModuleType

import httpx
import numpy as np
import onnxruntime as ort
import pytest
import tritonclient.grpc as grpcclient
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

from gateway.endpoints.triton import providers
from gateway.endpoints.triton.server.ports import TritonPorts

from .serving import MODELS
from .session import beside

WITH_GRAPHS = ("fraud_score", "image_inspection", "minilm", "names")
CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"


@pytest.fixture(scope="module")
def sessions(built: None) -> ModuleType:
    return beside("fraud_score", "ort_session")


def test_every_version_carries_the_one_module_of_each_kind() -> None:
    served = MODELS.parent / "gateway/models/served"
    carried = [(model, "ort_session.py") for model in WITH_GRAPHS]
    for model, name in (*carried, ("minilm", "text_pieces.py")):
        copy = MODELS / model / "1" / name
        assert filecmp.cmp(served / name, copy, shallow=False), (
            f"{copy} is old: python models/build.py"
        )


def test_every_model_with_a_graph_tells_in_tritons_metrics_what_it_runs_on(
    ports: TritonPorts,
) -> None:
    told = httpx.get(f"http://127.0.0.1:{ports.metrics}/metrics", trust_env=False).text
    found = {one.model: one for one in providers.read(told)}
    assert found.keys() == set(WITH_GRAPHS)
    for model, one in found.items():
        here = beside(model, "runtime").Runtime(MODELS / model / "1").session
        assert (one.provider, one.threads) == (here.session.get_providers()[0], here.threads)
        assert (MODELS / model / "1" / one.graph).exists()


def test_no_model_of_the_server_has_its_answers_kept(
    over_grpc: grpcclient.InferenceServerClient,
) -> None:
    names = [model.name for model in over_grpc.get_model_repository_index().models]
    assert set(WITH_GRAPHS) <= set(names)
    for name in names:
        config: model_config_pb2.ModelConfig = over_grpc.get_model_config(name).config
        assert not config.response_cache.enable, name


def test_a_provider_that_only_seems_to_load_is_passed_over(sessions: ModuleType) -> None:
    """On a machine without a GPU, ONNX Runtime takes CUDA and runs on the CPU without an error."""
    directory, options = MODELS / "fraud_score/1", ort.SessionOptions()
    options.log_severity_level = 4
    session, provider, _ = sessions.best(
        directory, sessions.SessionConfig(), options, None, (CUDA, CPU)
    )
    assert provider == session.get_providers()[0]
    assert provider == (CUDA if sessions.has_gpu() else CPU)


def test_engines_are_not_tried_without_the_sizes_to_build_them_for(sessions: ModuleType) -> None:
    here = [p for p in (TENSORRT, CUDA, CPU) if p == CPU or sessions.has_gpu()]
    assert sessions.candidates((CPU, CUDA, TENSORRT), True) == here
    assert sessions.candidates((CPU, CUDA, TENSORRT), False) == [p for p in here if p != TENSORRT]


def test_graphs_in_8_bits_are_for_the_cpu(sessions: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    assert sessions.graph_for(CPU, tmp_path, "model.int8.onnx") == "model.int8.onnx"
    assert sessions.graph_for(CUDA, tmp_path, "model.int8.onnx") == "model.onnx"
    (tmp_path / "model.onnx").unlink()
    assert sessions.graph_for(CUDA, tmp_path, "model.int8.onnx") == "model.int8.onnx"


@pytest.mark.parametrize(
    ("cores", "instances", "most", "expected"),
    [(1, 1, 8, 1), (2, 1, 8, 2), (2, 2, 8, 1), (2, 4, 8, 1), (16, 1, 8, 8), (16, 4, 8, 4),
     (16, 1, 1, 1)],
)  # fmt: skip
def test_instances_share_the_cores(
    sessions: ModuleType, cores: int, instances: int, most: int, expected: int
) -> None:
    assert sessions.threads(cores, instances, most) == expected


def test_a_config_says_the_graph_and_the_threads(sessions: ModuleType) -> None:
    config = {
        "parameters": {
            "graph": {"string_value": "model.int8.onnx"},
            "threads": {"string_value": "3"},
        },
        "instance_group": [{"count": 2}],
    }
    args = {
        "model_config": json.dumps(config),
        "model_instance_kind": "GPU",
        "model_instance_device_id": "1",
    }
    wanted = sessions.SessionConfig.from_arguments(args)
    assert (wanted.graph, wanted.threads, wanted.instances) == ("model.int8.onnx", 3, 2)
    assert wanted.device == 1
    assert sessions.SessionConfig.from_arguments({"model_config": "{}"}) == sessions.SessionConfig()


def test_on_cuda_a_row_is_as_exact_alone_as_in_a_batch(sessions: ModuleType) -> None:
    """TF32 made rows of a batch differ from rows alone by 7e-4 on an H200, near enough the trial's
    1e-3 that a model was served unbatched; and every new size of a batch cost a search."""
    settings = sessions.settings(sessions.CUDA, 1, None)
    assert settings == {
        "device_id": 1, "use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC",
    }  # fmt: skip
    assert sessions.settings(sessions.CPU, 1, None) == {}


def test_libraries_are_preloaded_where_a_card_is_to_be_used(
    sessions: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What ONNX Runtime prints of it is logged: standard output is the server's."""
    calls: list[str] = []

    def preload_dlls() -> None:
        calls.append("preload")
        print("Failed to load libcudnn.so.9")

    monkeypatch.setattr(sessions.ort, "preload_dlls", preload_dlls)
    for device, expected in ((False, []), (True, ["preload"])):
        monkeypatch.setattr(sessions, "has_gpu", lambda device=device: device)
        sessions.OrtSession(MODELS / "fraud_score/1")
        assert calls == expected
    assert "Failed to load libcudnn.so.9" in caplog.messages


@given(lengths=st.lists(st.integers(2, 256), min_size=1, max_size=32))
def test_texts_are_grouped_so_that_runs_and_padding_cost_the_least(lengths: list[int]) -> None:
    runtime = beside("minilm", "runtime")

    def cost(runs: list[list[int]]) -> int:
        return sum(runtime.RUN_COSTS + len(run) * max(lengths[at] for at in run) for run in runs)

    runs = runtime.together(lengths)
    assert sorted(at for run in runs for at in run) == list(range(len(lengths)))
    everyone = list(range(len(lengths)))
    assert cost(runs) <= min(cost([everyone]), cost([[at] for at in everyone]))


def test_a_text_has_its_own_vector_whatever_lengths_share_its_batch(built: None) -> None:
    served = beside("minilm", "runtime").Runtime(MODELS / "minilm/1")
    texts = [b"water " * n for n in (1, 90, 2, 40, 1, 200)]
    column = np.array(texts, dtype=object).reshape(-1, 1)
    together = served.execute({"text": column})["embedding"]
    for row, text in enumerate(texts):
        alone = served.execute({"text": np.array([[text]], dtype=object)})["embedding"]
        assert float(together[row] @ alone[0]) > 0.9999
