"""From an ONNX file to answers in both protocols: one command, then `spillway serve`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
import yaml
from openai import BadRequestError, OpenAI

from tests import live
from tests.live import LiveGateway
from tests.unit.models import graphs

TEXTS = ("spill water over the ropes", "home", "the red cloud")


def built(repository: Path, file: Path, name: str, *more: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "gateway", "models", "build", str(file), "--as", name,
         "--repository", str(repository), "--no-profile", *more],
        cwd=live.ROOT, check=True, capture_output=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    scratch = tmp_path_factory.mktemp("new-models")
    repository = scratch / "models"
    repository.mkdir()
    built(repository, graphs.scores(scratch / "scores.onnx"), "new_scores")
    tokenizer = graphs.tokenizer(scratch / "tokenizer.json")
    file = graphs.embedder(scratch / "embedder.onnx")
    built(repository, file, "new_texts", "--tokenizer", str(tokenizer))
    document = live.settings(None, scratch)
    document["endpoints"]["local"]["repository"] = str(repository)
    document["models"] = {}
    from gateway.models import declaration  # ONNX Runtime takes a second to import
    from gateway.models.adoption import adopt

    for path in declaration.declared(repository):
        document["models"] |= adopt.declared_settings(declaration.load(path))
    yaml.safe_dump(document)  # what the command printed is plain YAML
    with live.serving(document, scratch) as serving:
        yield serving


def reference(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The graph of `graphs.scores`, in numpy."""
    rng = np.random.default_rng(1)
    first = rng.normal(0, 1, (4, 64)).astype(np.float32)
    second = rng.normal(0, 0.3, (64, 2)).astype(np.float32)
    return np.asarray(np.maximum(rows @ first, 0) @ second)


@pytest.mark.parametrize("wire", ["rest", "grpc"])
def test_tensors_are_answered_over_both_wires(gateway: LiveGateway, wire: str) -> None:
    rows = np.random.default_rng(3).normal(0, 1, (5, 4)).astype(np.float32)
    target, kind = {
        "rest": (gateway.http_url.removeprefix("http://"), httpclient),
        "grpc": (gateway.grpc_target, grpcclient),
    }[wire]
    tensor = kind.InferInput("rows", list(rows.shape), "FP32")
    tensor.set_data_from_numpy(rows)
    with kind.InferenceServerClient(target) as client:
        found = client.infer("new_scores", [tensor]).as_numpy("score")
    np.testing.assert_allclose(found, reference(rows), rtol=1e-4, atol=1e-5)


def test_texts_are_answered_as_openai_embeddings_and_as_tensors(gateway: LiveGateway) -> None:
    client = OpenAI(base_url=f"{gateway.http_url}/v1", api_key="none", max_retries=0)
    answered = client.embeddings.create(model="new_texts", input=list(TEXTS))
    vectors = np.array([one.embedding for one in answered.data])
    assert vectors.shape == (3, graphs.WIDTH)
    assert answered.usage.total_tokens == sum(len(text.split()) for text in TEXTS)
    tensor = httpclient.InferInput("text", [3, 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[t.encode()] for t in TEXTS], dtype=np.object_))
    with httpclient.InferenceServerClient(gateway.http_url.removeprefix("http://")) as triton:
        found = triton.infer("new_texts", [tensor]).as_numpy("embedding")
    np.testing.assert_allclose(vectors, found, rtol=1e-5, atol=1e-6)
    alone = client.embeddings.create(model="new_texts", input=TEXTS[1])
    np.testing.assert_allclose(alone.data[0].embedding, vectors[1], rtol=1e-4, atol=1e-5)


def test_a_text_that_is_too_long_for_its_graph_is_cut_where_its_call_says_so(
    gateway: LiveGateway,
) -> None:
    client = OpenAI(base_url=f"{gateway.http_url}/v1", api_key="none", max_retries=0)
    texts = ["home", "the red " * 150]
    with pytest.raises(BadRequestError, match="300 tokens, and this model takes 256") as refused:
        client.embeddings.create(model="new_texts", input=texts)
    assert refused.value.param == "input[1]"
    cut = client.embeddings.create(model="new_texts", input=texts, extra_body={"truncate": "END"})
    whole = client.embeddings.create(model="new_texts", input="the red " * 128)
    assert cut.usage.total_tokens == 1 + 256
    np.testing.assert_allclose(cut.data[1].embedding, whole.data[0].embedding, rtol=1e-4)


def test_it_says_what_it_runs_on_as_the_others_do(gateway: LiveGateway) -> None:
    (local,) = gateway.client.get("/status").json()["endpoints"]
    told = local["runs_on"]["new_scores"]
    assert told["provider"].endswith("ExecutionProvider")
    assert (told["graph"], told["threads"]) == ("model.onnx", 1)


def test_what_does_not_fit_is_refused_and_not_quoted(gateway: LiveGateway) -> None:
    tensor = httpclient.InferInput("text", [1, 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[b"Janet \xff"]], dtype=np.object_))
    with (
        httpclient.InferenceServerClient(gateway.http_url.removeprefix("http://")) as triton,
        pytest.raises(Exception, match="UTF-8") as refusal,
    ):
        triton.infer("new_texts", [tensor])
    assert "Janet" not in str(refusal.value)
