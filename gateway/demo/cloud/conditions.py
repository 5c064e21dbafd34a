"""What a call meets: the settings in force, the dice, the calls in flight, and the bill."""

import asyncio
import collections
import dataclasses
import enum
import random
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.demo.cloud.settings import CloudSettings, OutageMode


class Refusal(enum.Enum):
    FAILED = "failed"
    RATE_LIMITED = "rate_limited"


@dataclasses.dataclass(frozen=True, slots=True)
class Fate:
    round_trip_s: float
    refusal: Refusal | None
    outage: OutageMode


class Dice:
    """Draws as many values for each call, so that one setting never shifts another's luck."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def fate(self, settings: CloudSettings, in_flight: int) -> Fate:
        round_trip = self._random.lognormvariate(0.0, settings.round_trip_sigma)
        limited, failed, hit = (self._random.random() for _ in range(3))
        full = settings.concurrency_limit is not None and in_flight >= settings.concurrency_limit
        refusal = None
        if full or limited < settings.rate_limited_rate:
            refusal = Refusal.RATE_LIMITED
        elif failed < settings.error_rate:
            refusal = Refusal.FAILED
        return Fate(
            round_trip_s=round_trip * settings.round_trip_median_ms / 1000,
            refusal=refusal,
            outage=settings.outage if hit < settings.outage_rate else OutageMode.NONE,
        )


@dataclasses.dataclass(slots=True)
class Bill:
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0


class Conditions:
    def __init__(self, settings: CloudSettings) -> None:
        self.settings = settings
        self.in_flight = 0
        self._first_settings = settings
        self._dice = Dice(settings.seed)
        self._clear()

    def _clear(self) -> None:
        self.routes: collections.Counter[str] = collections.Counter()
        self.models: collections.Counter[str] = collections.Counter()
        self.answers: collections.Counter[str] = collections.Counter()
        self.bill = Bill()

    def reset(self) -> None:
        """Everything as it was at the start, apart from the calls in flight."""
        self.settings = self._first_settings
        self._dice = Dice(self.settings.seed)
        self._clear()

    def change(self, settings: CloudSettings) -> None:
        reseeded = settings.seed != self.settings.seed
        self.settings = settings
        if reseeded:
            self._dice = Dice(settings.seed)

    @contextmanager
    def call(self, route: str, model: str | None) -> Iterator[Fate]:
        """One call from its arrival to its end, counted against the concurrency limit."""
        self.routes[route] += 1
        if model is not None:
            self.models[model] += 1
        fate = self._dice.fate(self.settings, self.in_flight)
        self.in_flight += 1
        try:
            yield fate
        finally:
            self.in_flight -= 1

    def charge(self, input_tokens: int, output_tokens: int) -> None:
        tokens = input_tokens + output_tokens
        self.bill.calls += 1
        self.bill.input_tokens += input_tokens
        self.bill.output_tokens += output_tokens
        self.bill.usd += self.settings.price_per_call_usd
        self.bill.usd += self.settings.price_per_1k_tokens_usd * tokens / 1000

    async def serve(self, tokens: int = 0) -> None:
        """The provider's own time for an answer that goes out in one piece."""
        settings = self.settings
        await asyncio.sleep((settings.service_ms + settings.service_per_token_ms * tokens) / 1000)

    async def next_token(self) -> None:
        await asyncio.sleep(self.settings.between_tokens_ms / 1000)
