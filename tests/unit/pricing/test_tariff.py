"""What attempts cost (B2): before they are sent never too little, after it to the nano-dollar."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.accounting.pricing import nano
from gateway.accounting.pricing.tariff import (
    UNSAID_OUTPUT,
    at_most,
    in_the_cloud,
    instead,
    on_the_premises,
    tariff,
)
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.operations.media.audio import TRANSCRIPTIONS
from gateway.core.operations.media.files import UploadedFile
from gateway.core.operations.spec import OperationSpec
from gateway.core.types import (
    DocumentCall,
    InferenceRequest,
    ServedModel,
    Tensor,
    TensorCall,
    Usage,
    WireProtocol,
)
from gateway.protocols import strictjson
from gateway.server.openai import documents

SPLIT = ServedModel(
    "gpt",
    price_usd_per_1k_input_tokens=0.0025,
    price_usd_per_1k_cached_tokens=0.00125,
    price_usd_per_1k_output_tokens=0.01,
)


def chat(operation: OperationSpec = CHAT, **document: Any) -> InferenceRequest:
    return _request(DocumentCall(operation, document))


def tensors(*data: bytes) -> InferenceRequest:
    return _request(TensorCall(tuple(Tensor("x", "BYTES", (1,), d) for d in data)))


def _request(payload: Any) -> InferenceRequest:
    return InferenceRequest("1", WireProtocol.OPENAI, "ward", "m", payload, Deadline(1e9))


@pytest.mark.parametrize(
    ("usd", "nano_usd"),
    [(0.0, 0), (1.0, 10**9), (0.1, 10**8), (0.3, 3 * 10**8), (2e-8, 20), (1e-10, 1)],
)
def test_amounts_are_taken_as_they_are_written_and_never_rounded_down(
    usd: float, nano_usd: int
) -> None:
    assert nano(usd) == nano_usd


@pytest.mark.parametrize(
    ("served", "usage", "moved_bytes", "usd"),
    [
        (ServedModel("m", price_usd=0.001), Usage(9, 9), 0, 0.001),
        (ServedModel("m", price_usd_per_1k_tokens=0.002), Usage(500, 500), 0, 0.002),
        (SPLIT, Usage(1000, 1000), 0, 0.0125),
        (SPLIT, Usage(1000, 1000, 800), 0, 0.0115),
        (SPLIT, Usage(1000, 0, 1000), 0, 0.00125),
        (ServedModel("m", price_usd_per_1k_input_tokens=0.1, price_usd_per_1k_output_tokens=0.0),
         Usage(10, 10_000), 0, 0.001),
        (ServedModel("m", price_usd=1.0, price_usd_per_1k_tokens=1.0, egress_usd_per_gb=0.09),
         Usage(1, 1), 10**9, 1.092),
        (ServedModel("m", price_usd_per_1k_tokens=2e-5), Usage(1, 0), 0, 2e-8),
        (ServedModel("m", price_usd_per_1k_tokens=1e-6), Usage(1, 0), 0, 1e-9),
        (ServedModel("m", price_usd_per_1k_tokens=1e-7), Usage(1, 0), 0, 1e-9),
    ],
    ids=["by the call", "by tokens", "either way", "some cached", "all cached", "only input",
         "everything, with egress", "small", "a nano-dollar", "a part of one counts as one"],
)  # fmt: skip
def test_a_call_in_the_cloud(
    served: ServedModel, usage: Usage, moved_bytes: int, usd: float
) -> None:
    assert tariff(served).price(usage, moved_bytes) == nano(usd)


def test_what_is_not_priced_is_counted_at_the_assumed_price() -> None:
    unknown = ServedModel("m", assumed_usd_per_1k_tokens=0.6)
    assert in_the_cloud(chat(), unknown, Usage(1000, 0), 1, 0).nano_usd == nano(0.6)
    assert at_most(tensors(b"x"), unknown) > 0


_TEXTS = st.text(max_size=200)
_USAGE = st.tuples(st.floats(0, 1), st.integers(0, 50), st.floats(0, 1))


@given(_TEXTS, st.integers(1, 50), _USAGE)
def test_no_call_costs_more_than_was_put_aside(
    text: str, most: int, used: tuple[float, int, float]
) -> None:
    """A tokenizer makes at most one token of a byte; a provider writes at most what it may."""
    request = chat(messages=[{"role": "user", "content": text}], max_tokens=most)
    share, written, cached = used
    given_tokens = int(len(text.encode()) * share)
    usage = Usage(given_tokens, min(written, most), int(given_tokens * cached))
    dear_cache = replace(SPLIT, price_usd_per_1k_cached_tokens=0.02)
    dear_call = ServedModel("m", price_usd=0.1, price_usd_per_1k_tokens=3.0)
    for served in (SPLIT, dear_cache, dear_call):
        assert in_the_cloud(request, served, usage, 1, 0).nano_usd <= at_most(request, served)


@pytest.mark.parametrize(
    ("said", "tokens"),
    [
        ({}, UNSAID_OUTPUT),
        ({"max_tokens": 7}, 7),
        ({"max_completion_tokens": 7}, 7),
        ({"max_output_tokens": 7}, 7),
        ({"max_tokens": 9, "max_completion_tokens": 7}, 7),
        ({"max_tokens": 7, "n": 3}, 21),
        ({"max_tokens": 7, "n": 2, "best_of": 3}, 21),
        ({"max_tokens": 7, "prompt": ["a", "b"]}, 14),
        ({"max_tokens": "7"}, UNSAID_OUTPUT),
        ({"max_tokens": 0}, UNSAID_OUTPUT),
        ({"max_tokens": -1}, UNSAID_OUTPUT),
        ({"max_tokens": True}, UNSAID_OUTPUT),
    ],
)
def test_what_an_answer_may_have_is_what_its_call_allows(said: dict[str, Any], tokens: int) -> None:
    written = ServedModel(
        "m", price_usd_per_1k_input_tokens=0.0, price_usd_per_1k_output_tokens=1.0
    )
    assert at_most(chat(**said), written) == tokens * nano(0.001)


def test_a_copy_with_another_document_is_priced_by_that_one() -> None:
    catalog = Catalog({"m": CatalogModel("m", "generate", ("gpu",))})
    said = {"model": "m", "messages": [{"role": "user"}]}
    _, call = documents.read(CHAT, said, catalog, 0, 48)
    copy = replace(call, document={**call.document, "messages": [{"role": "user" * 500}]})
    served = ServedModel("m", price_usd_per_1k_input_tokens=1.0)
    assert at_most(_request(call), served) == 48 * nano(0.001)
    assert at_most(_request(copy), served) == len(strictjson.dumps(copy.document)) * nano(0.001)


def test_embeddings_have_no_output() -> None:
    request = chat(EMBEDDINGS, input="text")
    written = ServedModel(
        "m", price_usd_per_1k_input_tokens=0.0, price_usd_per_1k_output_tokens=1.0
    )
    assert at_most(request, written) == 0


def test_of_an_answer_that_never_began_all_counts() -> None:
    request = chat(max_tokens=100)
    cost = in_the_cloud(request, SPLIT, None, frames=0, received_bytes=0)
    assert cost.nano_usd == at_most(request, SPLIT)
    assert cost.estimated


def test_of_an_answer_that_nobody_counted_the_events_count() -> None:
    request = chat(max_tokens=100)
    cost = in_the_cloud(request, SPLIT, None, frames=10, received_bytes=0)
    assert cost.usage.output_tokens == 10
    assert cost.estimated
    assert not in_the_cloud(request, SPLIT, Usage(1, 1), 10, 0).estimated


def test_what_crosses_is_paid_for_both_ways() -> None:
    served = ServedModel("m", egress_usd_per_gb=1.0)
    call = tensors(b"x" * 400)
    assert in_the_cloud(call, served, None, 1, received_bytes=600).nano_usd == nano(1e-6)
    assert at_most(call, served) >= nano(1e-6)


def test_a_file_that_crosses_is_paid_for() -> None:
    served = ServedModel("m", egress_usd_per_gb=1.0)
    file = UploadedFile("file", "a", "audio/mpeg", b"x" * 5000, "audio")
    call = replace(chat(), payload=DocumentCall(TRANSCRIPTIONS, {}, files=(file,)))
    assert in_the_cloud(call, served, None, 1, received_bytes=0).moved_bytes == 5002
    assert at_most(call, served) >= nano(5e-6)


def test_on_the_premises_the_servers_time_is_paid_for() -> None:
    """Never nothing: 7.20 USD an hour are 2,000 nano-dollars a millisecond."""
    served = ServedModel("m", gpu_usd_per_hour=7.2)
    assert on_the_premises(served, 1_000_000, None).nano_usd == 2000
    assert on_the_premises(served, 1, None).nano_usd == 1


def test_what_the_cloud_would_have_charged() -> None:
    assert instead(chat(), SPLIT, Usage(1000, 1000), 1) == nano(0.0125)
    assert instead(tensors(b"xyz"), ServedModel("m", price_usd=0.5), None, 1) == nano(0.5)
