"""Counts of tokens that are told plainly are read as those that are told in any other way."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.types import Usage
from gateway.endpoints.connectors.openai import connector as openai

KEYS = ("prompt_tokens", "completion_tokens", "total_tokens", "input_tokens", "output_tokens")
COUNTS = st.sampled_from([0, 1, 460, -1, 10**9, 10**9 + 1, True, 1.0, "1", None])
DETAILS = st.sampled_from([None, {}, {"cached_tokens": 3}, {"cached_tokens": -1}, 7])
TOLD = st.dictionaries(st.sampled_from(KEYS), COUNTS).flatmap(
    lambda told: st.just(told) | DETAILS.map(lambda d: {**told, "prompt_tokens_details": d})
)


@given(TOLD)
def test_plain_counts_are_read_as_any(told: dict[str, Any]) -> None:
    assert openai.counted(told) == (openai._total(told), openai._parts(told))


def test_counts_are_read() -> None:
    told = {"prompt_tokens": 400, "completion_tokens": 60, "total_tokens": 460}
    assert openai.counted(told) == (460, Usage(400, 60))
    told_more = {**told, "prompt_tokens_details": {"cached_tokens": 128}}
    assert openai.counted(told_more) == (460, Usage(400, 60, 128))
