"""B6: what a key and its tenant may use, in requests, tokens and calls at once."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.deadline import Deadline
from gateway.core.errors import OverLimit
from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.core.types import (
    DocumentCall,
    InferenceRequest,
    Payload,
    Quota,
    Tensor,
    TensorCall,
    WireProtocol,
)
from gateway.pipeline.rate_limits import QuotaReservation, RateLimits, estimate
from gateway.pipeline.rate_limits.bucket import Bucket
from tests.unit.limits.holders import holders
from tests.unit.spill.clock import HandClock

KEY = Quota("key a", "key", "acme", requests_per_minute=3)
TENANT = Quota("tenant acme", "tenant", "acme", concurrent=2)
TOKENS = Quota("key t", "key", "acme", tokens_per_minute=1000)


def chat(**document: Any) -> DocumentCall:
    return DocumentCall(CHAT, {"model": "m", **document})


def call(*quotas: Quota, payload: Payload | None = None) -> InferenceRequest:
    return InferenceRequest(
        id="id", protocol=WireProtocol.OPENAI, tenant="acme", model="m",
        payload=payload or chat(max_tokens=99), deadline=Deadline(1e9, lambda: 0.0),
        quotas=quotas,
    )  # fmt: skip


@pytest.fixture
def times() -> HandClock:
    return HandClock()


@pytest.fixture
def limits(times: HandClock) -> RateLimits:
    return RateLimits(times)


def over(limits: RateLimits, request: InferenceRequest) -> OverLimit:
    with pytest.raises(OverLimit) as caught:
        limits.enter(request)
    return caught.value


def test_a_key_makes_as_many_requests_in_a_minute_as_it_may(
    limits: RateLimits, times: HandClock
) -> None:
    for _ in range(3):
        limits.enter(call(KEY)).settle(None, True)
    error = over(limits, call(KEY))
    assert (error.http_status, error.grpc_status) == (429, "RESOURCE_EXHAUSTED")
    assert error.reason == "requests_limit"
    assert error.retry_after_s == pytest.approx(20.0)
    times.now_s += 20.0
    limits.enter(call(KEY))
    over(limits, call(KEY))


def test_the_keys_of_a_tenant_share_what_it_may(limits: RateLimits) -> None:
    other = replace(KEY, holder="key b")
    first = limits.enter(call(KEY, TENANT))
    limits.enter(call(other, TENANT))
    error = over(limits, call(other, TENANT))
    assert error.reason == "concurrent_limit"
    assert error.retry_after_s
    first.settle(None, True)
    limits.enter(call(KEY, TENANT))


def test_one_key_does_not_use_what_another_may(limits: RateLimits) -> None:
    for _ in range(3):
        limits.enter(call(KEY))
    over(limits, call(KEY))
    limits.enter(call(replace(KEY, holder="key b")))


def test_a_call_that_is_refused_for_one_limit_takes_nothing_of_the_others(
    limits: RateLimits,
) -> None:
    full = replace(TENANT, concurrent=1)
    limits.enter(call(full))
    for _ in range(9):
        assert over(limits, call(KEY, full)).reason == "concurrent_limit"
    requests = holders(limits)["key a"].requests
    assert requests is not None
    assert requests.level(100.0) == 3


def test_a_place_is_given_back_once(limits: RateLimits) -> None:
    one = limits.enter(call(TENANT))
    limits.enter(call(TENANT))
    one.settle(None, True)
    one.settle(None, True)
    limits.enter(call(TENANT))
    over(limits, call(TENANT))


def left(limits: RateLimits, times: HandClock) -> float:
    bucket = holders(limits)[TOKENS.holder].tokens
    assert bucket is not None
    return bucket.level(times.now_s)


ESTIMATED = estimate.tokens(call(payload=chat(max_tokens=99)))


@pytest.mark.parametrize(
    ("used", "tried", "counted"),
    [
        (40, True, 40.0),  # what the answer says counts
        (700, True, 700.0),  # also when it is more than was put aside
        (None, True, ESTIMATED),  # nobody counted: the estimate stands
        (None, False, 0.0),  # it was sent to nobody
    ],
)
def test_tokens_are_put_aside_by_estimate_and_settled_by_use(
    limits: RateLimits, times: HandClock, used: int | None, tried: bool, counted: float
) -> None:
    share = limits.enter(call(TOKENS))
    assert left(limits, times) == pytest.approx(1000 - ESTIMATED)
    share.settle(used, tried)
    assert left(limits, times) == pytest.approx(1000 - counted)


def test_calls_under_way_count_with_what_they_may_use(limits: RateLimits) -> None:
    """A burst cannot overshoot because nobody has counted yet."""
    for _ in range(int(1000 // ESTIMATED)):
        limits.enter(call(TOKENS))
    error = over(limits, call(TOKENS))
    assert error.reason == "tokens_limit"
    assert error.retry_after_s


def test_a_call_of_more_than_a_minutes_tokens_needs_a_full_minute(
    limits: RateLimits, times: HandClock
) -> None:
    large = call(TOKENS, payload=chat(max_tokens=5000))
    limits.enter(call(TOKENS)).settle(60, True)
    assert over(limits, large).retry_after_s == pytest.approx(3.6)
    times.now_s += 3.6
    limits.enter(large).settle(2000, True)
    assert over(limits, call(TOKENS)).retry_after_s == pytest.approx(60 + ESTIMATED * 60 / 1000), (
        "what it used beyond is paid back first"
    )


def test_tensors_have_no_tokens(limits: RateLimits) -> None:
    text = Tensor("t", "BYTES", (1,), b"\x04\x00\x00\x00text")
    for _ in range(2000):
        limits.enter(call(TOKENS, payload=TensorCall((text,))))


@pytest.mark.parametrize(
    ("document", "operation", "tokens"),
    [
        ({"prompt": "x" * 400, "max_tokens": 50}, COMPLETIONS, 151.0),
        ({"prompt": "x" * 400}, COMPLETIONS, 357.0),
        ({"prompt": "x" * 400, "max_tokens": 50, "n": 3}, COMPLETIONS, 251.0),
        ({"messages": [{"content": [{"text": "x" * 40}]}], "max_completion_tokens": 9},
         CHAT, 20.0),
        ({"input": ["x" * 40, "y" * 40]}, EMBEDDINGS, 21.0),
        ({"input": "x" * 40, "max_output_tokens": 5}, RESPONSES, 16.0),
    ],
)  # fmt: skip
def test_tokens_are_estimated_by_letters_in_and_what_is_asked_for(
    document: dict[str, Any], operation: OperationSpec, tokens: float
) -> None:
    assert estimate.tokens(call(payload=DocumentCall(operation, document))) == tokens


def test_what_is_left_is_told(limits: RateLimits, times: HandClock) -> None:
    both = Quota("key a", "key", "acme", 60, 6000, 4)
    share = limits.enter(call(both, TENANT))
    assert share.headers() == {
        "ratelimit-policy": '"key-requests";q=60;w=60, "key-tokens";q=6000;qu="tokens";w=60, '
        '"key-concurrent";q=4;qu="concurrent-requests", '
        '"tenant-concurrent";q=2;qu="concurrent-requests"',
        "ratelimit": '"key-requests";r=59;t=1, "key-tokens";r=5899;t=2, "key-concurrent";r=3, '
        '"tenant-concurrent";r=1',
    }
    limits.enter(call(both, TENANT))
    error = over(limits, call(both, TENANT))
    assert '"tenant-concurrent";r=0' in error.extra_headers["ratelimit"]
    limits.enter(call(both)).settle(50_000, True)
    assert '"key-tokens";r=0;' in share.headers()["ratelimit"], "a debt is nothing left"


def test_what_is_told_is_of_the_form_that_the_draft_gives(limits: RateLimits) -> None:
    told = limits.enter(call(Quota("key a", "key", "acme", 60.5, 10.2, 1))).headers()
    for value in told.values():
        for item in value.split(", "):
            assert re.fullmatch(r'"[a-z-]+"(;(q|w|r|t)=[0-9]+|;qu="[a-z-]+")+', item), item


def test_who_has_no_limits_is_told_nothing_and_nothing_is_remembered(limits: RateLimits) -> None:
    share = limits.enter(call())
    assert share.headers() == {}
    share.settle(5, True)
    assert len(holders(limits)) == 0


def test_keys_that_rest_are_forgotten(limits: RateLimits, times: HandClock) -> None:
    """A million tenants in a month are not a million entries."""
    stays = limits.enter(call(TENANT))
    for at in range(10_000):
        times.now_s += 1.0
        limits.enter(call(replace(KEY, holder=f"key {at}"))).settle(None, True)
    assert len(holders(limits)) < 3000
    assert holders(limits)[TENANT.holder].inside == 1
    stays.settle(None, True)


def test_a_changed_limit_counts_from_the_next_call_on(limits: RateLimits) -> None:
    first = limits.enter(call(TENANT))
    more = replace(TENANT, concurrent=1)
    assert over(limits, call(more)).reason == "concurrent_limit"
    first.settle(None, True)


def test_the_operator_learns_which_limit_it_was(times: HandClock) -> None:
    seen: list[tuple[str, str]] = []
    limits = RateLimits(times, lambda quota, what: seen.append((quota.tenant, what)))
    limits.enter(call(replace(TENANT, concurrent=1)))
    over(limits, call(replace(TENANT, concurrent=1)))
    assert seen == [("acme", "concurrent")]


Step = tuple[float, int, bool]


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.floats(0, 30), st.integers(0, 400), st.booleans()), max_size=80),
    st.integers(1, 20),
    st.integers(1, 5),
)
def test_no_order_of_calls_gets_more_than_the_limits(
    steps: list[Step], per_minute: int, at_once: int
) -> None:
    """In any time t no more requests than a minute's worth and what t brings; nor more at once."""
    times = HandClock()
    limits = RateLimits(times)
    quota = Quota("key a", "key", "acme", per_minute, None, at_once)
    open_calls: list[QuotaReservation] = []
    entered: list[float] = []
    for wait_s, used, ends in steps:
        times.now_s += wait_s
        if ends and open_calls:
            open_calls.pop(0).settle(used, True)
            continue
        try:
            open_calls.append(limits.enter(call(quota)))
        except OverLimit:
            continue
        entered.append(times.now_s)
        assert len(open_calls) <= at_once
    for at, since_s in enumerate(entered):
        within = len(entered) - at
        assert within <= per_minute + (entered[-1] - since_s) * per_minute / 60 + 1e-6
    for share in open_calls:
        share.settle(None, False)
    assert sum(h.inside for h in holders(limits)) == 0


def test_a_bucket_never_holds_more_than_a_minutes_worth() -> None:
    bucket = Bucket(10, 0.0)
    bucket.take(-100, 0.0)
    assert bucket.level(1e6) == 10


def test_a_clock_that_stands_still_or_goes_back_gives_nothing() -> None:
    bucket = Bucket(10, 100.0)
    bucket.take(10, 100.0)
    for at_s in (100.0, 90.0, 100.0):
        assert bucket.level(at_s) == 0
