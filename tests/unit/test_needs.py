"""What a call needs is part of the decision: the same call has the same answer whatever the load,
and nothing of it is dropped in silence."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.errors import Incapable, NoEligibleEndpoint, OnpremUnavailable, UpstreamRefused
from gateway.core.operations.capabilities import CAPABILITIES
from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.operations.registry import OPERATIONS
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.core.reply import Placement
from gateway.core.types import DocumentCall, ServedModel, Zone
from gateway.endpoints.connectors.triton.embedding import EmbeddingRequest
from gateway.endpoints.connectors.triton.openai_prompts import ask
from gateway.scheduling.routing.needs import needs
from gateway.server.openai.errors import error_document
from tests.unit.harness import MODEL, Ended, Plan, Rig, Site, cloud, onprem, request, run

pytestmark = pytest.mark.leaping

SAID: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]
BODY: dict[str, Any] = {"model": MODEL, "messages": SAID}
TOOL = {"type": "function", "function": {"name": "f"}}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
ASKS: list[tuple[dict[str, Any], str, str]] = [
    ({"tools": [TOOL]}, "tools", "tools"),
    ({"functions": [{"name": "f"}]}, "tools", "functions"),
    ({"tool_choice": "required"}, "tools", "tool_choice"),
    ({"tool_choice": {"type": "function"}}, "tools", "tool_choice"),
    ({"response_format": {"type": "json_object"}}, "structured_output", "response_format"),
    ({"logprobs": True}, "logprobs", "logprobs"),
    ({"logit_bias": {"50256": -100}}, "logit_bias", "logit_bias"),
    ({"n": 40}, "choices", "n"),
    ({"seed": -1}, "sampling", "seed"),
    ({"stop": ["a"] * 17}, "sampling", "stop"),
    ({"modalities": ["text", "audio"]}, "audio", "modalities"),
    ({"reasoning_effort": "high"}, "reasoning", "reasoning_effort"),
    ({"web_search_options": {}}, "search", "web_search_options"),
    ({"guided_json": {"type": "object"}}, "other", "guided_json"),
    ({"messages": [{"role": "user", "content": [PICTURE]}]}, "parts", "messages[0].content[0]"),
    (
        {"messages": [*SAID, {"role": "assistant", "content": None, "tool_calls": [TOOL]}]},
        "tools",
        "messages[1].tool_calls",
    ),
]
PLAIN: list[dict[str, Any]] = [
    {},
    {"tools": [], "tool_choice": "auto", "response_format": {"type": "text"}},
    {"n": 2, "seed": 7, "stop": ["\n"], "temperature": 0, "top_p": 1.0, "max_tokens": 8},
    {
        "user": "u",
        "metadata": {"a": "b"},
        "store": False,
        "stream_options": {"include_usage": True},
    },
    {"logprobs": False, "logit_bias": {}, "guided_json": None},
    {"messages": [{"role": "user", "name": "Ann", "content": [{"type": "text", "text": "a"}]}]},
]


def vllm(name: str = "vllm") -> Site:
    return replace(onprem(name=name), kind="openai")


def provider() -> Site:
    return replace(cloud(), kind="openai")


def called(kind: str, more: dict[str, Any], *sites: Site, down: str = "", **changes: Any) -> Ended:
    async def main() -> Ended:
        rig = Rig(*sites)
        if down:
            rig.registry.states[down].up = False
        call = DocumentCall(CHAT, {**BODY, **more})
        ended = await rig.call(request(kind, payload=call, **changes))
        assert rig.leftovers() == {}
        return ended

    return run(main())


def state(ended: Ended) -> Placement:
    assert ended.placement is not None, ended.error
    return ended.placement


@pytest.mark.parametrize(("more", "capability", "field"), ASKS)
def test_what_the_premises_cannot_goes_to_the_cloud_at_any_load(
    more: dict[str, Any], capability: str, field: str
) -> None:
    found = state(called("clear", more, onprem(), provider()))
    assert (found.zone, found.reason) == (Zone.CLOUD, "cloud_only")


@pytest.mark.parametrize(("more", "capability", "field"), ASKS)
def test_a_restricted_call_that_no_server_can_serve_is_told_which_field(
    more: dict[str, Any], capability: str, field: str
) -> None:
    error = called("restricted", more, onprem(), provider()).error
    assert isinstance(error, Incapable)
    assert (error.http_status, error.grpc_status) == (400, "UNIMPLEMENTED")
    told = error_document(error)
    assert (told["param"], told["code"]) == (field, "not_offered")
    assert field in error.message
    assert capability in error.message


@pytest.mark.parametrize(("more", "capability", "field"), ASKS)
def test_a_server_that_can_gets_it(more: dict[str, Any], capability: str, field: str) -> None:
    for kind in ("clear", "restricted"):
        assert state(called(kind, more, onprem(), vllm())).endpoint == "vllm"


@pytest.mark.parametrize("more", PLAIN)
def test_what_every_model_honours_stays_where_it_was(more: dict[str, Any]) -> None:
    for kind in ("clear", "restricted"):
        assert state(called(kind, more, onprem(), provider())).endpoint == "gpu"


def test_a_clear_call_that_may_not_leave_is_told_which_field() -> None:
    error = called("clear", {"tools": [TOOL]}, onprem(), provider(), zones=frozenset({Zone.ONPREM}))
    assert isinstance(error.error, Incapable)


def test_where_a_server_that_can_is_out_the_call_may_be_tried_again() -> None:
    more = {"tools": [TOOL]}
    ended = called("restricted", more, onprem(), vllm(), down="vllm")
    assert isinstance(ended.error, OnpremUnavailable)
    ended = called("clear", more, onprem(), provider(), down="cloud")
    assert isinstance(ended.error, NoEligibleEndpoint)


async def test_what_an_endpoint_lacks_by_the_settings_is_not_asked_of_it() -> None:
    rig = Rig(vllm("small"), vllm("large"))
    models: Any = rig.catalog.endpoints["small"].models
    models[MODEL] = ServedModel(MODEL, lacks=frozenset({"tools"}))
    for _ in range(4):
        call = DocumentCall(CHAT, {**BODY, "tools": [TOOL]})
        assert state(await rig.call(request("restricted", payload=call))).endpoint == "large"
    plain = DocumentCall(CHAT, BODY)
    calls = (rig.call(request("restricted", payload=plain)) for _ in range(8))
    assert {state(e).endpoint for e in await asyncio.gather(*calls)} == {"small", "large"}


async def test_the_answer_is_the_same_whatever_the_load() -> None:
    """Before and after usual calls whose decision stands, and beside a crowd."""

    slow = replace(onprem(Plan(open_s=0.2)), expected_ms=200)
    rig = Rig(slow, provider())
    call = DocumentCall(CHAT, {**BODY, "tools": [TOOL]})
    plain = DocumentCall(CHAT, BODY)
    for crowd in (0, 1, 30):
        beside = [rig.call(request("clear", 1.0, payload=plain)) for _ in range(crowd)]
        running = [asyncio.ensure_future(each) for each in beside]
        await asyncio.sleep(0.01)
        left = await rig.call(request("clear", 1.0, payload=call))
        kept = await rig.call(request("restricted", 1.0, payload=call))
        assert state(left).reason == "cloud_only"
        assert isinstance(kept.error, Incapable)
        await asyncio.gather(*running)


async def test_explain_says_it() -> None:
    rig = Rig(onprem(), provider())
    call = DocumentCall(CHAT, {**BODY, "tools": [TOOL]})
    clear = await rig.pipeline.explain(request("clear", payload=call))
    assert clear.decision is not None
    assert clear.decision.vetoes == (("gpu", "capability"),)
    restricted = await rig.pipeline.explain(request("restricted", payload=call))
    assert isinstance(restricted.refusal, Incapable)
    assert ("gpu", "capability") in restricted.refusal.vetoes


def test_operations_name_no_capability_that_there_is_not() -> None:
    named = {row[0] for spec in OPERATIONS.values() for row in spec.fields.values()}
    assert named - {""} <= set(CAPABILITIES)


_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 40), st.floats(0, 2), st.text(max_size=3),
    st.sampled_from(["auto", "none", "text", "float"]),
    st.lists(st.one_of(st.text(max_size=2), st.integers(0, 9)), max_size=18),
    st.dictionaries(st.sampled_from(["type", "format", "effort"]), st.text(max_size=4), max_size=2),
)  # fmt: skip
_PARTS = st.one_of(st.text(max_size=4), st.none(), st.lists(st.sampled_from([
    {"type": "text", "text": "a"}, {"type": "input_text", "text": "a"}, PICTURE,
]), max_size=2))  # fmt: skip
_MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "system", "tool", "robot"]), "content": _PARTS},
        optional={"name": st.text(max_size=3), "tool_calls": st.just([TOOL])},
    ),
    min_size=1, max_size=3,
)  # fmt: skip
_GIVEN: dict[OperationSpec, dict[str, Any]] = {
    CHAT: {"messages": _MESSAGES},
    COMPLETIONS: {
        "prompt": st.one_of(
            st.text(max_size=3),
            st.lists(st.text(max_size=2), min_size=1, max_size=18),
            st.lists(st.integers(0, 9), min_size=1, max_size=3),
        )
    },
    RESPONSES: {"input": st.one_of(st.text(max_size=3), _MESSAGES)},
    EMBEDDINGS: {
        "input": st.one_of(st.text(max_size=3), st.lists(st.text(max_size=2), min_size=1)),
    },
}


@given(st.data(), st.sampled_from(list(_GIVEN)))
def test_a_call_without_needs_is_refused_by_no_text_model(
    data: st.DataObject, operation: OperationSpec
) -> None:
    """The table and the connector say the same."""
    inner = set(_GIVEN[operation])
    keys = [key for key in operation.fields if key not in inner | {"model", "stream"}]
    document = data.draw(st.fixed_dictionaries(_GIVEN[operation]))
    for key in data.draw(st.lists(st.sampled_from(keys), max_size=4, unique=True)):
        document[key] = data.draw(_VALUES, label=key)
    if any(needs(DocumentCall(operation, document))):
        return
    try:
        if operation is EMBEDDINGS:
            EmbeddingRequest.from_document(document)
        else:
            ask(operation, document)
    except UpstreamRefused as refused:
        raise AssertionError(document) from refused
