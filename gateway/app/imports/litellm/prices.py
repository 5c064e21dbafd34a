"""What a deployment costs, as its file says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def prices_per_1k(params: Mapping[str, Any]) -> Mapping[str, float]:
    """US dollars per 1,000 tokens; one that is stated for a single direction counts for both."""
    given = _usd_per_1k(params, "input_cost_per_token")
    written = _usd_per_1k(params, "output_cost_per_token")
    if given is None or written is None:
        either = written if given is None else given
        return {} if either is None else {"price_usd_per_1k_tokens": either}
    prices = {
        "price_usd_per_1k_input_tokens": given,
        "price_usd_per_1k_output_tokens": written,
    }
    cached = _usd_per_1k(params, "cache_read_input_token_cost")
    return prices if cached is None else {**prices, "price_usd_per_1k_cached_tokens": cached}


def _usd_per_1k(params: Mapping[str, Any], key: str) -> float | None:
    price = params.get(key)
    if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < 1:
        return None
    return round(price * 1000, 9)
