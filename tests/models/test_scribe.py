"""The toy generator, over the tensors of Triton's vLLM backend."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import httpx
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

from gateway.endpoints.triton.server.ports import TritonPorts
from gateway.models import declaration
from gateway.models.profiling.load import Measured, connected
from gateway.models.profiling.samples import requests
from tests.live import wait_until

from .calls import Array, Response, stream, texts
from .serving import MODELS

Client: TypeAlias = grpcclient.InferenceServerClient


def call(client: Client, prompt: str | bytes, **options: Array) -> list[Response]:
    return stream(client, "scribe", {"text_input": texts(prompt), **options})


def text_of(responses: list[Response]) -> str:
    parts = [r.outputs["text_output"] for r in responses if "text_output" in r.outputs]
    return b"".join(part[0] for part in parts).decode()


def flag(value: bool) -> Array:
    return np.array([value])


def tokens(limit: int) -> Array:
    return np.array([limit], dtype=np.int32)


def test_a_stream_is_one_response_a_word_and_then_an_empty_final_one(over_grpc: Client) -> None:
    responses = call(over_grpc, "the dam", stream=flag(True), max_tokens=tokens(12))
    assert len(responses) == 13
    assert [r.final for r in responses] == [False] * 12 + [True]
    assert responses[-1].outputs == {}


def test_without_stream_the_same_text_comes_at_once(over_grpc: Client) -> None:
    streamed = call(over_grpc, "the dam", stream=flag(True), max_tokens=tokens(30))
    at_once = call(over_grpc, "the dam", stream=flag(False), max_tokens=tokens(30))
    assert len(at_once) == 2
    assert text_of(streamed) == text_of(at_once)
    assert len(text_of(at_once).split()) == 30


def test_it_says_what_it_is(over_grpc: Client) -> None:
    assert text_of(call(over_grpc, "Who are you?")).startswith("[scribe, a toy generator")


def test_sampling_parameters_set_length_and_seed(over_grpc: Client) -> None:
    def written(sampling: str) -> str:
        return text_of(call(over_grpc, "x", sampling_parameters=texts(sampling)))

    assert len(written('{"max_tokens": "9", "temperature": "0.5"}').split()) == 9
    assert written('{"seed": 1}') == written('{"seed": 1}') != written('{"seed": 2}')


def test_it_counts_and_gives_its_reason_to_stop_when_asked(over_grpc: Client) -> None:
    (response, _) = call(
        over_grpc,
        "two words",
        max_tokens=tokens(5),
        return_finish_reason=flag(True),
        return_num_input_tokens=flag(True),
        return_num_output_tokens=flag(True),
    )
    assert response.outputs["finish_reason"][0] == b"length"
    assert response.outputs["num_input_tokens"][0] == 2
    assert response.outputs["num_output_tokens"][0] == 5


def test_the_prompt_is_repeated_only_on_request(over_grpc: Client) -> None:
    options = {"exclude_input_in_output": flag(False), "max_tokens": tokens(3)}
    assert text_of(call(over_grpc, "tell me", **options)).startswith("tell me")


@pytest.mark.parametrize(
    ("prompt", "options", "says"),
    [
        ("x", {"sampling_parameters": texts("[Janet]")}, "must be a JSON object"),
        ("x", {"sampling_parameters": texts('{"seed": "Janet"}')}, "must be a JSON object"),
        ("x", {"max_tokens": tokens(0)}, "at least 1"),
        (b"Janet \xff", {}, "must be UTF-8"),
    ],
)
def test_a_bad_call_is_refused_without_being_quoted(
    over_grpc: Client, prompt: str | bytes, options: dict[str, Array], says: str
) -> None:
    with pytest.raises(InferenceServerException, match=says) as refusal:
        call(over_grpc, prompt, **options)
    assert "Janet" not in str(refusal.value)


def made(ports: TritonPorts) -> tuple[float, float]:
    """Steps and words, by the model's own metrics."""
    told = httpx.get(f"http://127.0.0.1:{ports.metrics}/metrics", trust_env=False).text
    said = r'^spillway_generator_(\w+)_total\{model="scribe"\} (\S+)$'
    counts = dict(re.findall(said, told, re.MULTILINE))
    return float(counts["steps"]), float(counts["words"])


def test_answers_that_are_written_at_once_share_their_steps(
    over_grpc: Client, ports: TritonPorts
) -> None:
    """Continuous batching: calls join and leave between two steps."""
    call(over_grpc, "so that there are counts", max_tokens=tokens(2))
    scribe = declaration.load(MODELS / "scribe" / declaration.FILE)

    async def crowd() -> Measured:
        async with connected(f"127.0.0.1:{ports.grpc}", "scribe", streamed=True) as target:
            return await target.measure(requests(scribe, 1, 5, 16), callers=32, seconds=1.0)

    before = made(ports)
    asyncio.run(crowd())
    # Told when nobody is there any more, which a caller may see a little later.
    wait_until(lambda: made(ports)[1] >= before[1] + 64, 10)
    steps, words = (after - was for after, was in zip(made(ports), before, strict=True))
    assert words / steps >= 8


def test_what_is_written_for_one_does_not_depend_on_the_others(ports: TritonPorts) -> None:
    prompts = [f"the dam {n}" for n in range(6)]

    def written(prompt: str) -> str:
        with grpcclient.InferenceServerClient(f"127.0.0.1:{ports.grpc}") as client:
            return text_of(call(client, prompt, max_tokens=tokens(20)))

    alone = [written(prompt) for prompt in prompts]
    assert len(set(alone)) > 1
    with ThreadPoolExecutor(len(prompts)) as callers:
        assert list(callers.map(written, prompts)) == alone
