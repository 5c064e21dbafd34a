"""Moderations, classifications, scores, ranks and tokens: what goes on, and what stays."""

from __future__ import annotations

from typing import Any

import cohere
import httpx
import openai
import pytest

from tests.unit.operations.conftest import House

CARD = "My card is 4111 1111 1111 1111."
PICTURE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}


def test_a_moderation_needs_no_model(house: House) -> None:
    answer = house.sdk.moderations.create(input=["Good morning.", "Good night."])
    assert answer.results[0].flagged is False
    assert house.sdk.moderations.create(model="moderate", input="Good morning.").model
    first, second = house.taken()
    assert (first.path, first.fields["input"]) == (
        "/onprem/v1/moderations", ["Good morning.", "Good night."],
    )  # fmt: skip
    assert first.fields["model"] == second.fields["model"] == "its-moderate"


def test_a_model_is_required_where_there_are_several(house: House) -> None:
    refused = house.client.post("/v1/rerank", json={"query": "a", "documents": ["b"]})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "model")


@pytest.mark.parametrize(
    ("path", "there", "model", "document"),
    [
        ("/classify", "/classify", "classify", {"input": ["Good morning."]}),
        ("/v1/classify", "/classify", "classify", {"input": "Good morning."}),
        ("/v1/score", "/v1/score", "rerank", {"text_1": "a", "text_2": ["b", "c"]}),
        ("/score", "/v1/score", "rerank", {"queries": ["a"], "documents": ["b"]}),
        ("/v1/rerank", "/v1/rerank", "rerank", {"query": "a", "documents": ["b", "c"]}),
        ("/rerank", "/v1/rerank", "rerank", {"query": "a", "documents": [{"text": "b"}]}),
        ("/v2/rerank", "/v1/rerank", "rerank", {"query": "a", "documents": ["b"], "top_n": 1}),
        ("/tokenize", "/tokenize", "generate", {"prompt": "Good morning."}),
        ("/tokenize", "/tokenize", "generate", {"messages": [{"role": "user", "content": "a"}]}),
        ("/v1/images/generations", "/v1/images/generations", "images", {"prompt": "A cat."}),
    ],
)
def test_a_call_goes_to_the_path_that_its_server_has(
    house: House, path: str, there: str, model: str, document: dict[str, Any]
) -> None:
    answer = house.client.post(path, json={"model": f"{model}-cloud", **document})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-spillway-zone"] == "cloud"
    (call,) = house.taken()
    assert (call.path, call.fields) == (f"/cloud{there}", {"model": f"its-{model}", **document})


WITH_CARDS: list[tuple[str, str, dict[str, Any]]] = [
    ("/v1/classify", "classify", {"input": CARD}),
    ("/v1/classify", "classify", {"input": ["a", CARD]}),
    ("/v1/classify", "classify", {"messages": [{"role": "user", "content": CARD}]}),
    ("/v1/score", "rerank", {"text_1": CARD, "text_2": "b"}),
    ("/v1/score", "rerank", {"text_1": "a", "text_2": ["b", CARD]}),
    ("/v1/score", "rerank", {"queries": "a", "documents": [{"text": CARD}]}),
    ("/v1/score", "rerank", {"data_1": "a", "data_2": CARD}),
    ("/rerank", "rerank", {"query": CARD, "documents": ["b"]}),
    ("/v2/rerank", "rerank", {"query": "a", "documents": [CARD]}),
    ("/tokenize", "generate", {"prompt": CARD}),
    ("/tokenize", "generate", {"messages": [{"role": "user", "content": CARD}]}),
    ("/tokenize", "generate", {"prompt": "a", "chat_template": CARD}),
    ("/detokenize", "generate", {"tokens": [1, 2, 3]}),
    ("/v1/images/generations", "images", {"prompt": CARD}),
    ("/v1/images/generations", "images", {"prompt": "a", "user": CARD}),
    ("/v1/images/generations", "images", {"prompt": "a", "image": "https://example.com/a.png"}),
    ("/v1/audio/speech", "speak", {"input": "a", "ref_audio": "UklGRg=="}),
    ("/v1/audio/speech", "speak", {"input": CARD, "voice": "alloy"}),
    ("/v1/audio/speech", "speak", {"input": "a", "instructions": CARD}),
    ("/v1/audio/speech", "speak", {"input": "a", "voice": {"id": CARD}}),
]


@pytest.mark.parametrize(("path", "model", "document"), WITH_CARDS)
def test_what_restricts_stays_wherever_it_stands(
    house: House, path: str, model: str, document: dict[str, Any]
) -> None:
    answer = house.client.post(path, json={"model": f"{model}-cloud", **document})
    assert answer.status_code == 503
    assert answer.headers["x-spillway-reason"] == "onprem_unavailable_restricted"
    assert house.taken() == []
    answer = house.client.post(path, json={"model": model, **document})
    assert (answer.status_code, answer.headers["x-spillway-sensitivity"]) == (200, "restricted")
    (call,) = house.taken()
    assert call.path.startswith("/onprem")


def test_moderated_parts_are_read(house: House) -> None:
    harmless = [{"type": "text", "text": "Good morning."}]
    for given, sensitivity in (
        (harmless, "clear"),
        (CARD, "restricted"),
        ([*harmless, {"type": "text", "text": CARD}], "restricted"),
        ([*harmless, PICTURE], "restricted"),
    ):
        answer = house.client.post("/v1/moderations", json={"input": given})
        assert answer.headers["x-spillway-sensitivity"] == sensitivity


@pytest.mark.parametrize(
    ("path", "document", "param"),
    [
        ("/v1/moderations", {}, "input"),
        ("/v1/moderations", {"input": [1]}, "input[0]"),
        ("/v1/classify", {"model": "classify"}, "input"),
        ("/v1/score", {"model": "rerank", "text_1": "a"}, "text_1"),
        ("/v1/score", {"model": "rerank", "text_1": "a", "text_2": [PICTURE]}, "text_2[0]"),
        ("/v1/score", {"model": "rerank", "text_1": "a", "text_2": []}, "text_2"),
        ("/tokenize", {"model": "generate", "prompt": ["a"]}, "prompt"),
        ("/detokenize", {"model": "generate", "tokens": ["a"]}, "tokens"),
        ("/v1/images/generations", {"model": "images", "prompt": 1}, "prompt"),
        ("/v1/audio/speech", {"model": "speak"}, "input"),
    ],
)
def test_what_nobody_could_serve_is_refused(
    house: House, path: str, document: dict[str, Any], param: str
) -> None:
    answer = house.client.post(path, json=document)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert house.taken() == []


def test_cohere_s_clients_rank(house: House) -> None:
    for client in (
        cohere.ClientV2("none", base_url=house.url, httpx_client=httpx.Client(trust_env=False)),
        cohere.Client("none", base_url=house.url, httpx_client=httpx.Client(trust_env=False)),
    ):
        answer = client.rerank(model="rerank-cloud", query="a", documents=["b", "c"], top_n=2)
        assert [result.index for result in answer.results] == [1, 0]
    assert {call.path for call in house.taken()} == {"/cloud/v1/rerank"}


RANKS = {"query": "a", "texts": ["b", "c"]}


def test_a_client_of_text_embeddings_inference_ranks(house: House) -> None:
    call = {"model": "rerank-cloud", **RANKS, "truncate": True, "raw_scores": False}
    answer = house.client.post("/rerank", json=call)
    assert answer.json() == [{"index": 1, "score": 0.9}, {"index": 0, "score": 0.0}]
    assert answer.headers["x-spillway-zone"] == "cloud"
    (received,) = house.taken()
    assert received.fields == {
        "model": "its-rerank", "query": "a", "documents": ["b", "c"], "truncate_prompt_tokens": -1,
    }  # fmt: skip
    again = house.client.post("/rerank", json={"model": "rerank", **RANKS, "return_text": True})
    assert [rank["text"] for rank in again.json()] == ["c", "b"]


def test_ranked_texts_are_read(house: House) -> None:
    for more in ({"texts": ["b", CARD]}, {"texts": ["b"], "query": CARD}):
        answer = house.client.post("/rerank", json={"model": "rerank-cloud", **RANKS, **more})
        assert answer.status_code == 503
    refused: list[tuple[dict[str, Any], str]] = [
        ({"raw_scores": True}, "raw_scores"),
        ({"truncation_direction": "Left"}, "truncation_direction"),
        ({"texts": []}, "documents"),
    ]
    for wrong, param in refused:
        answer = house.client.post("/rerank", json={"model": "rerank", **RANKS, **wrong})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert house.taken() == []


def test_an_answer_that_ranks_nothing_is_a_failure(house: House) -> None:
    house.provider.script = lambda peer: peer.answer({"results": [{"index": 7}]})
    try:
        answer = house.client.post("/rerank", json={"model": "rerank", **RANKS})
    finally:
        house.provider.script = None
    assert answer.status_code == 502


def test_a_model_of_another_task_is_refused(house: House) -> None:
    with pytest.raises(openai.BadRequestError, match="task speak"):
        house.sdk.moderations.create(model="speak", input="a")
