"""Spans say what happened in a call and when, in a closed set of words; or there are none."""

from __future__ import annotations

import asyncio
import re
import typing
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core import trace_context
from gateway.core.trace_context import UNTRACED, Sampler, Span, Trace

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE_ID}-b7ad6b7169203331-01"
PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "tracing.md"


class Watched:
    """A trace on a clock of its own."""

    def __init__(self) -> None:
        self.now_s = 10.0
        self.done: list[Trace] = []
        self.trace = Trace(PARENT, "00f067aa0ba902b7", 9.5, lambda: self.now_s, self.done.append)

    def spans(self) -> dict[str, Span]:
        return {span.name: span for span in self.trace.spans}


def test_the_call_is_the_span_of_this_hop_under_the_callers() -> None:
    root = Watched().trace.root
    assert (root.id, root.parent, root.start_s) == ("b7ad6b7169203331", "00f067aa0ba902b7", 9.5)


def test_stages_lie_within_each_other_and_have_their_times() -> None:
    watched = Watched()
    trace = watched.trace
    trace.since("front", 9.5)
    with trace.stage("dispatch"):
        watched.now_s += 1
        with trace.stage("queue"):
            watched.now_s += 2
        attempt = trace.begin("attempt")
        watched.now_s += 4
        trace.end(attempt, {"endpoint": "gpu"})
    trace.finish({"outcome": "served"})
    spans = watched.spans()
    times = {name: (span.start_s, span.end_s) for name, span in spans.items()}
    assert times == {
        "call": (9.5, 17), "front": (9.5, 10), "dispatch": (10, 17), "queue": (11, 13),
        "attempt": (13, 17),
    }  # fmt: skip
    parents = {name: span.parent for name, span in spans.items()}
    assert parents["front"] == parents["dispatch"] == spans["call"].id
    assert parents["queue"] == parents["attempt"] == spans["dispatch"].id
    assert spans["attempt"].attributes == {"endpoint": "gpu"}
    assert watched.done == [trace]


def test_a_stage_that_fails_says_of_what_kind_and_no_more() -> None:
    watched = Watched()
    with pytest.raises(ValueError, match="secret"), watched.trace.stage("classify"):
        raise ValueError("secret")
    assert watched.spans()["classify"].attributes == {"error": "ValueError"}


def test_stages_of_two_tries_side_by_side_do_not_mix_up() -> None:
    async def main() -> None:
        trace = Watched().trace
        first, second = asyncio.Event(), asyncio.Event()

        async def one() -> None:
            with trace.stage("dispatch"):
                first.set()
                await second.wait()

        async def other() -> None:
            await first.wait()
            with trace.stage("classify"):
                second.set()
                await asyncio.sleep(0)
                await asyncio.sleep(0)

        await asyncio.gather(one(), other())
        assert trace.begin("settle").parent == trace.root.id

    asyncio.run(main())


def test_a_call_ends_once_and_what_comes_later_changes_nothing() -> None:
    watched = Watched()
    loser = watched.trace.begin("attempt")
    watched.now_s += 1
    watched.trace.finish({"outcome": "served"})
    watched.now_s += 1
    watched.trace.end(loser, {"endpoint": "gpu"})
    watched.trace.finish({"outcome": "failed"})
    watched.trace.begin("settle")
    assert watched.done == [watched.trace]
    assert (loser.end_s, loser.attributes) == (11, {})
    assert watched.trace.root.attributes == {"outcome": "served"}
    assert "settle" not in watched.spans()


def test_what_a_server_does_lies_within_the_attempt() -> None:
    trace = Watched().trace
    attempt = trace.begin("attempt")
    assert trace.onwards(attempt, PARENT) == f"00-{TRACE_ID}-{attempt.id}-01"


def test_of_a_call_that_is_not_sampled_nothing_is_kept() -> None:
    with UNTRACED.stage("dispatch"):
        assert UNTRACED.begin("attempt") is None
    UNTRACED.end(None, {"endpoint": "gpu"})
    UNTRACED.finish({"outcome": "served"})
    assert UNTRACED.onwards(None, PARENT) == PARENT
    assert not UNTRACED.sampled
    assert not getattr(UNTRACED, "__dict__", {})


@given(st.text(max_size=300))
def test_only_plain_words_can_be_told(text: str) -> None:
    span = Span("call", "a", "", 0.0)
    span.set_attribute("model", text)
    if re.fullmatch(r"[A-Za-z0-9_.:+/@~#-]{0,400}", text):
        assert span.attributes["model"] == text
    else:
        assert span.attributes["model"] == "other"


@pytest.mark.parametrize("text", ["my card", "ü", "a@b c", "x" * 401, "line\n"])
def test_a_text_is_no_value(text: str) -> None:
    span = Span("call", "a", "", 0.0)
    span.set_attribute("model", text)
    assert span.attributes == {"model": "other"}


@pytest.mark.parametrize(
    ("flags", "ratio", "callers", "sampled"),
    [
        ("01", 0.0, True, True), ("00", 1.0, True, False), ("03", 0.0, True, True),
        ("01", 0.0, False, False), ("00", 1.0, False, True),
        ("", 0.0, True, False), ("", 1.0, True, True),
    ],
)  # fmt: skip
def test_a_caller_decides_where_it_may_and_a_share_of_the_rest_is_traced(
    flags: str, ratio: float, callers: bool, sampled: bool
) -> None:
    assert Sampler(ratio, callers).samples(TRACE_ID, flags) is sampled


def test_a_share_is_about_so_many_and_the_same_for_all_who_see_a_trace() -> None:
    traces = [Random(n).randbytes(16).hex() for n in range(1000)]
    one, other = Sampler(0.25), Sampler(0.25)
    chosen = {t for t in traces if one.samples(t)}
    assert 190 <= len(chosen) <= 310
    assert chosen == {t for t in traces if other.samples(t)}
    assert chosen < {t for t in traces if Sampler(0.5).samples(t)}


def test_every_stage_and_attribute_is_documented() -> None:
    page = PAGE.read_text()
    for stage in typing.get_args(trace_context.Stage):
        assert f"`spillway.{stage}`" in page


def test_every_attribute_has_its_otlp_name_and_is_documented() -> None:
    spans = pytest.importorskip(
        "gateway.accounting.otlp.spans", reason="the extra otel is not installed"
    )
    assert set(spans.KEYS) == set(typing.get_args(trace_context.Attribute))
    page = PAGE.read_text()
    for key in spans.KEYS.values():
        assert f"`{key}`" in page
