"""What one attempt costs: in the cloud by its provider's price, on the premises by GPU time.

Amounts are whole nano-dollars (`nano_usd`), so that sums are exact in any order: a token of a small
embedding model costs 20 of them, and 64 bits hold nine thousand million dollars.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal

NANO = 1_000_000_000


def nano(usd: float) -> int:
    """Of a stated amount, as it is written and not as a float holds it; never rounded down."""
    return int((Decimal(repr(usd)) * NANO).to_integral_value(ROUND_CEILING))


def usd(nano_usd: int) -> float:
    """For people and for JSON; never to add up."""
    return nano_usd / NANO
