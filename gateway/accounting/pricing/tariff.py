"""The price of an attempt at one endpoint: before it is sent, at most; and after it, as it was.

Where the endpoint has not said how many tokens it counted, they are bounded from above: no
tokenizer makes more tokens than there are bytes, and a stream's event carries at least one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gateway.accounting.pricing import nano
from gateway.core.types import Cost, DocumentCall, InferenceRequest, ServedModel, Usage
from gateway.protocols import strictjson

UNSAID_OUTPUT = 4096
"""Tokens that an answer may have when its call does not limit them: the most that GPT-3.5, GPT-4o's
first version and most open models give by default. Stated as an estimate in
docs/how-to/costs-and-budgets.md."""

_MILLION = 1_000_000
_GB = 1_000_000_000
_HOUR_NS = 3600 * 1_000_000_000
_EVENT_BYTES = 256  # of one token in a streamed answer, framing included; longer ones are rare
_LIMITS = ("max_completion_tokens", "max_output_tokens", "max_tokens")


@dataclass(frozen=True, slots=True)
class Tariff:
    """Of one model at one endpoint, in nano-dollars."""

    call: int  # each
    given: int  # a million input tokens
    cached: int  # a million of those that the provider had seen before
    cache_write: int  # a million of those that it puts into its cache
    written: int  # a million output tokens
    gigabyte: int  # that goes there or comes back
    gpu_hour: int  # of the whole server
    by_tokens: bool
    flat: bool  # a call costs what it costs, whatever is in it

    def price(self, usage: Usage, moved_bytes: int) -> int:
        """What a call costs in the cloud; a fraction of a nano-dollar counts as one."""
        fresh = max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens)
        tokens = fresh * self.given + usage.cached_tokens * self.cached
        tokens += usage.cache_write_tokens * self.cache_write
        tokens += usage.output_tokens * self.written
        # guard: B2.round-up self.call - -tokens // _MILLION -> self.call + tokens // _MILLION
        return self.call - (-tokens // _MILLION) - (-moved_bytes * self.gigabyte // _GB)

    def dearest(self, usage: Usage) -> Usage:
        """Some providers ask more for what they keep in their cache."""
        given = usage.input_tokens
        if self.cache_write > max(self.given, self.cached):
            return replace(usage, cached_tokens=0, cache_write_tokens=given)
        return replace(usage, cached_tokens=given if self.cached > self.given else 0)


_MOST_KNOWN: Final = 4096
_known: dict[int, tuple[ServedModel, Tariff]] = {}  # by the id of what the tariff is of


def tariff(served: ServedModel) -> Tariff:
    """The one that `served` states."""
    known = _known.get(id(served))
    if known is None or known[0] is not served:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        known = _known[id(served)] = (served, _tariff(served))
    return known[1]


def _tariff(served: ServedModel) -> Tariff:
    """What is not stated in particular is the price of all tokens."""
    per_1k = served.price_usd_per_1k_tokens or served.assumed_usd_per_1k_tokens

    def million(stated: float | None, otherwise: float) -> int:
        return 1000 * nano(otherwise if stated is None else stated)

    stated = served.price_usd_per_1k_input_tokens
    fresh = per_1k if stated is None else stated
    given = million(stated, per_1k)
    written = million(served.price_usd_per_1k_output_tokens, per_1k)
    gigabyte = nano(served.egress_usd_per_gb)
    by_tokens = bool(given or written)
    return Tariff(
        call=nano(served.price_usd),
        given=given,
        cached=million(served.price_usd_per_1k_cached_tokens, fresh),
        cache_write=million(served.price_usd_per_1k_cache_write_tokens, fresh),
        written=written,
        gigabyte=gigabyte,
        gpu_hour=nano(served.gpu_usd_per_hour),
        by_tokens=by_tokens,
        flat=not (by_tokens or gigabyte),
    )


def at_most(request: InferenceRequest, served: ServedModel) -> int:
    """What an attempt in the cloud can cost: put aside before it is sent."""
    price = tariff(served)
    if price.flat:
        return price.call
    bound = price.dearest(_bound(request))  # guard: B1.answer-cost -> bound = Usage(500, 0)
    sent_bytes = bound.input_tokens + _uploaded_bytes(request)
    return price.price(bound, sent_bytes + bound.output_tokens * _EVENT_BYTES)


def in_the_cloud(
    request: InferenceRequest,
    served: ServedModel,
    counted: Usage | None,
    frames: int,
    received_bytes: int,
) -> Cost:
    """`counted`: by the endpoint. Without it, an answer of so many frames; of one that never began
    nobody knows how much of it was made and will be on the bill, so all of it counts."""
    price = tariff(served)
    if price.flat:
        return Cost(price.call, counted or _NONE)
    bound = _bound(request)
    # guard: B3.unbegun-answer -> usage = counted or _so_far(bound, frames)
    usage = counted or (_so_far(bound, frames) if frames else price.dearest(bound))
    moved = 0
    if price.gigabyte:
        moved = bound.input_tokens + _uploaded_bytes(request) + received_bytes
    return Cost(
        price.price(usage, moved), usage, moved, estimated=counted is None and price.by_tokens
    )


def on_the_premises(served: ServedModel, share_ns: int, counted: Usage | None) -> Cost:
    """By its share of the server's time, or by the price that is stated instead of it."""
    price, usage = tariff(served), counted or _NONE
    tokens = price.by_tokens or price.cached  # one of them has a price
    nano_usd = price.price(usage, 0) if tokens else price.call
    # guard: B2.server-time -> return Cost(nano_usd, usage, 0, share_ns)
    return Cost(nano_usd - (-share_ns * price.gpu_hour // _HOUR_NS), usage, 0, share_ns)


def compared(cost: Cost, cloud_nano_usd: int) -> Cost:
    """With what the cloud would have charged (`instead`)."""
    return Cost(
        cost.nano_usd, cost.usage, cost.moved_bytes, cost.gpu_ns, cloud_nano_usd, cost.estimated
    )


def instead(
    request: InferenceRequest, served: ServedModel, counted: Usage | None, frames: int
) -> int:
    """What the cloud would have charged for a call that was answered on the premises."""
    price = tariff(served)
    if not price.by_tokens:
        return price.call
    usage = counted or _so_far(_bound(request), frames)
    return price.price(usage, 0)


def _so_far(bound: Usage, frames: int) -> Usage:
    """At least four bytes a token is usual for English; three leaves room."""
    return Usage(-(-bound.input_tokens // 3), min(frames, bound.output_tokens))


def _bound(request: InferenceRequest) -> Usage:
    call = request.payload
    if not isinstance(call, DocumentCall):
        return Usage(sum(len(t.data) for t in call.inputs), UNSAID_OUTPUT)
    given = call.json_bytes or len(strictjson.dumps(call.document))
    return Usage(given, _most_written(call.document) if call.operation.writes else 0)


def _uploaded_bytes(request: InferenceRequest) -> int:
    """Of files, which are no tokens."""
    call = request.payload
    return sum(len(file.content) for file in call.files) if isinstance(call, DocumentCall) else 0


def _most_written(document: Mapping[str, Any]) -> int:
    limits = [_count(document.get(key)) for key in _LIMITS]
    most = min((count for count in limits if count), default=UNSAID_OUTPUT)
    prompts = document.get("prompt")
    several = len(prompts) if isinstance(prompts, list) and prompts else 1
    return most * max(_count(document.get("n")), _count(document.get("best_of")), 1) * several


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0


_NONE = Usage(0, 0)
