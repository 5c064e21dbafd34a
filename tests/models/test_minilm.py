"""The served sentence embedding against a computation that shares no code with it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from .calls import infer, texts
from .serving import MODELS

GOLDEN = json.loads((MODELS / "minilm/golden.json").read_text(encoding="utf-8"))


def embed(
    client: grpcclient.InferenceServerClient, *values: str | bytes, **parameters: str
) -> npt.NDArray[np.float32]:
    column = texts(*values)[:, None]
    return infer(client, "minilm", {"text": column}, "embedding", parameters).astype(np.float32)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case['pieces']} pieces")
def test_a_text_has_the_vector_of_the_reference(
    over_grpc: grpcclient.InferenceServerClient, case: dict[str, Any]
) -> None:
    (vector,) = embed(over_grpc, case["text"], truncate="END")
    np.testing.assert_allclose(vector[:16], case["first"], atol=2e-5)
    assert vector.sum() == pytest.approx(case["sum"], abs=2e-4)
    assert np.linalg.norm(vector) == pytest.approx(case["norm"], abs=1e-5)


def test_padding_in_a_batch_changes_no_vector(over_grpc: grpcclient.InferenceServerClient) -> None:
    together = embed(over_grpc, *(case["text"] for case in GOLDEN), truncate="END")
    np.testing.assert_allclose(together[:, :16], [case["first"] for case in GOLDEN], atol=2e-5)


def test_sentences_that_mean_the_same_are_closer(
    over_grpc: grpcclient.InferenceServerClient,
) -> None:
    vectors = embed(
        over_grpc,
        "How do I reset my password?",
        "I forgot my login and need a new one.",
        "The cat sleeps in the sun.",
    )
    alike, unlike = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert alike > unlike + 0.25


def test_what_follows_256_word_pieces_counts_only_where_it_is_not_cut(
    over_grpc: grpcclient.InferenceServerClient,
) -> None:
    full = "word " * 254
    longer = full + "and a surprising end"
    (whole,) = embed(over_grpc, full)
    (cut,) = embed(over_grpc, longer, truncate="END")
    (end,) = embed(over_grpc, longer, truncate="START")
    np.testing.assert_allclose(whole, cut, atol=1e-6)
    assert whole @ end < 0.999
    with pytest.raises(InferenceServerException, match=r"row 0: the text has \d+ tokens") as caught:
        embed(over_grpc, longer)
    assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"


def test_json_and_binary_tensors_give_the_same_vector(
    over_grpc: grpcclient.InferenceServerClient, over_http: httpclient.InferenceServerClient
) -> None:
    tensor = httpclient.InferInput("text", [1, 1], "BYTES")
    tensor.set_data_from_numpy(texts("one call")[:, None], binary_data=False)
    over_json = over_http.infer("minilm", [tensor]).as_numpy("embedding")
    np.testing.assert_allclose(over_json, embed(over_grpc, "one call"), atol=1e-6)


def test_a_bad_text_fails_alone_and_is_not_quoted(
    over_grpc: grpcclient.InferenceServerClient,
) -> None:
    values: list[str | bytes] = ["fine"] * 16
    values[8] = b"Janet \xff"

    def outcome(value: str | bytes) -> str:
        try:
            return str(embed(over_grpc, value).shape)
        except InferenceServerException as error:
            return str(error)

    with ThreadPoolExecutor(len(values)) as pool:  # at once, so that they share batches
        outcomes = list(pool.map(outcome, values))
    assert "must be UTF-8" in outcomes.pop(8)
    assert "Janet" not in "".join(outcomes)
    assert set(outcomes) == {"(1, 384)"}
