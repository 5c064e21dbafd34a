"""Ten times the document takes ten times the work to read, whatever it is made of.

Counted in bytecodes, not in time. What is handed to C in one go, as a scan is, is not in them:
`loadtests.bench.classify` times all of it over the same sizes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from gateway.classify.conversations.memory import segments
from gateway.classify.text.extract import extract_texts
from gateway.config.model_catalog import CatalogModel
from gateway.core.operations.chat import CHAT
from gateway.core.types import DocumentCall

pytestmark = pytest.mark.interpreted  # what is compiled has no bytecodes
MODEL = CatalogModel("chat", "generate", ("gpu",))
WORDS = "the gardener waters 12 tulips before noon, "


def one_message(size: int) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": (WORDS * size)[:size]}]}


def many_messages(size: int) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": WORDS}] * (size // len(WORDS))}


def small_strings(size: int) -> dict[str, Any]:
    return {"input": ["4111 11"] * (size // 10), "model": "chat"}


def parts(size: int) -> dict[str, Any]:
    part = {"type": "text", "text": WORDS}
    return {"messages": [{"role": "user", "content": [part] * (size // len(WORDS))}]}


def nested(size: int) -> dict[str, Any]:
    """As deep as a body may be, again and again."""
    deep: Any = WORDS
    for _ in range(60):
        deep = [deep]
    return {"tools": [deep] * (size // 160)}


def numbers(size: int) -> dict[str, Any]:
    return {"stop": [41111111] * (size // 9)}


def json_text(size: int) -> dict[str, Any]:
    """Strings in a string."""
    said = ", ".join([rf'"{WORDS}\\n"'] * (size // len(WORDS)))
    return {"messages": [{"role": "user", "content": f"[{said}]"}]}


def bytecodes(step: Callable[[], object]) -> int:
    count = 0

    def counted(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return counted

    before = sys.gettrace()
    sys.settrace(counted)
    try:
        step()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "shape", [one_message, many_messages, small_strings, parts, nested, numbers, json_text]
)
def test_reading_grows_as_the_document_does(shape: Callable[[int], dict[str, Any]]) -> None:
    def read(size: int) -> int:
        call = DocumentCall(CHAT, shape(size))
        found: list[Any] = []
        cost = bytecodes(lambda: found.append(extract_texts(call, MODEL, 1 << 24)))
        assert sum(map(len, found[0])) > size / 10
        return cost + bytecodes(lambda: segments(found[0]))

    small, large = read(2_000), read(20_000)
    assert large <= 10.5 * small
    assert read(200_000) <= 10.5 * large


def test_one_long_message_is_read_at_the_price_of_a_short_one() -> None:
    short, long = (DocumentCall(CHAT, one_message(n)) for n in (1_000, 1_000_000))
    costs = [bytecodes(lambda c=c: extract_texts(c, MODEL, 1 << 24)) for c in (short, long)]  # type: ignore[misc]
    assert costs[0] == costs[1]
