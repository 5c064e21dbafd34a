"""The spans of one call: what happened in it and when, stage by stage, while it is sampled.

Spans are kept as values and given away when the call has ended; nobody waits for whoever sends them
on (`otlp`). What they may say is a closed set of attributes, each with a value of a closed set, a
number, or a name of the settings: no text of a call has a place in them (BEHAVIOURS C12).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Literal

from gateway.core import ambient

Stage = Literal[
    "front", "admission", "classify", "decide", "dispatch", "queue", "attempt", "settle"
]
Attribute = Literal[
    "protocol", "operation", "model", "tenant", "sensitivity", "outcome", "reason", "attempts",
    "endpoint", "zone", "result", "error",
]  # fmt: skip
Value = str | int | float

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:+/@~#-]{0,400}")
_NOTHING: Final = nullcontext()


@dataclass(slots=True)
class Span:
    name: str
    id: str
    parent: str  # empty: it has none
    start_s: float  # monotonic
    end_s: float | None = None
    attributes: dict[Attribute, Value] = field(default_factory=dict)

    def set_attribute(self, attribute: Attribute, value: Value) -> None:
        plain = not isinstance(value, str) or _PLAIN.fullmatch(value)
        # guard: T3.text-attribute -> self.attributes[attribute] = value
        self.attributes[attribute] = value if plain else "other"


class Untraced:
    """Of a call that is not sampled: nothing is kept, and next to nothing is done."""

    sampled = False

    def stage(self, name: Stage) -> AbstractContextManager[object]:
        """Entered when it begins and left when it ends."""
        return _NOTHING

    def begin(self, name: Stage) -> Span | None:
        """A stage that does not end where it began: `end` must follow."""
        return None

    def since(self, name: Stage, start_s: float) -> None:
        """A stage that ends now."""

    def end(self, span: Span | None, attributes: Mapping[Attribute, Value]) -> None:
        """Of what `begin` gave."""

    def onwards(self, span: Span | None, traceparent: str) -> str:
        """The traceparent to send on from within a stage, in place of the call's own."""
        return traceparent

    def finish(self, attributes: Mapping[Attribute, Value]) -> None:
        """The call has ended."""


UNTRACED: Final = Untraced()


class Trace(Untraced):
    sampled = True

    def __init__(
        self,
        traceparent: str,
        caller_span: str,
        received_s: float,
        clock: Callable[[], float],
        done: Callable[[Trace], None],
    ) -> None:
        """`traceparent` is of this hop: its span is the call."""
        self.id = traceparent[3:35]
        self.wall_s = ambient.wall_s() - clock()  # to be added to the time of a span
        self.root = Span("call", traceparent[36:52], caller_span, received_s)
        self.spans = [self.root]
        self._within = [self.root]
        self._clock = clock
        self._done = done
        self._finished = False

    def stage(self, name: Stage) -> AbstractContextManager[object]:
        return _Within(self, name)

    def begin(self, name: Stage) -> Span:
        span = Span(name, ambient.random_hex(8), self._within[-1].id, self._clock())
        if not self._finished:
            self.spans.append(span)
        return span

    def since(self, name: Stage, start_s: float) -> None:
        span = self.begin(name)
        span.start_s, span.end_s = start_s, self._clock()

    def end(self, span: Span | None, attributes: Mapping[Attribute, Value]) -> None:
        if span is not None and not self._finished:
            span.end_s = self._clock()
            for attribute, value in attributes.items():
                span.set_attribute(attribute, value)

    def onwards(self, span: Span | None, traceparent: str) -> str:
        return traceparent if span is None else f"00-{self.id}-{span.id}-01"

    def finish(self, attributes: Mapping[Attribute, Value]) -> None:
        if self._finished:
            return
        self.end(self.root, attributes)
        self._finished = True
        for span in self.spans:
            if span.end_s is None:  # the loser of two tries, which has yet to close
                span.end_s = self.root.end_s
        self._done(self)

    def enter(self, span: Span) -> None:
        self._within.append(span)

    def leave(self, span: Span, attributes: Mapping[Attribute, Value]) -> None:
        self._within.remove(span)  # not always the last: two tries run side by side
        self.end(span, attributes)


class _Within:
    """A stage of which others may be parts."""

    __slots__ = ("_name", "_span", "_trace")

    def __init__(self, trace: Trace, name: Stage) -> None:
        self._trace, self._name = trace, name
        self._span: Span | None = None

    def __enter__(self) -> None:
        self._span = self._trace.begin(self._name)
        self._trace.enter(self._span)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        assert self._span is not None
        # guard: T3.error-type {'error': kind.__name__} -> {'error': str(error)}
        self._trace.leave(self._span, {} if kind is None else {"error": kind.__name__})


@dataclass(frozen=True, slots=True)
class Sampler:
    """Which calls are traced: as their callers have it, and a share of all others."""

    ratio: float = 0.0
    callers_decide: bool = True

    def samples(self, trace_id: str, caller_flags: str = "") -> bool:
        """By the last 56 bits of the trace id, so that all who see it come to the same."""
        if caller_flags and self.callers_decide:
            return bool(int(caller_flags, 16) & 1)
        if self.ratio in (0.0, 1.0):
            return self.ratio == 1.0
        return int(trace_id[-14:], 16) < self.ratio * (1 << 56)


ALL: Final = Sampler(1.0)
