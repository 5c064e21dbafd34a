"""What is read of a document is all that stands in it, in its order, however it is walked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.classify.text import extract as extract_module
from gateway.classify.text.collect import (
    LABELS,
    MAX_NODES,
    PROTOCOL_WORDS,
    TextCollector,
    Unscannable,
)
from gateway.classify.text.extract import extract_texts
from gateway.config.model_catalog import CatalogModel
from gateway.core.operations.chat import CHAT
from gateway.core.types import DocumentCall

MODEL = CatalogModel("chat", "generate", ("gpu",))
WORDS = st.sampled_from(["role", "content", "user", "name", "x", "4111 1111", "1111 1111", "", " "])
SCALARS = WORDS | st.none() | st.booleans() | st.integers(-(10**8), 10**8) | st.floats(-1e9, 1e9)
MESSAGES = st.fixed_dictionaries({"role": WORDS, "content": WORDS}) | st.fixed_dictionaries(
    {"content": WORDS | st.none(), "role": WORDS | st.integers()}, optional={"name": WORDS}
)
VALUES = st.recursive(
    SCALARS | MESSAGES | st.lists(st.integers(-(10**6), 10**6 + 1), min_size=15, max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=12,
)


def read_plainly(value: Any, collector: TextCollector) -> None:
    """The same by recursion, one value at a time."""
    if isinstance(value, dict):
        collector.count(2 * len(value))
        for key, item in value.items():
            if key not in PROTOCOL_WORDS:
                collector.text(key)
            if key in LABELS and isinstance(item, str):
                collector.text(item)
            else:
                read_plainly(item, collector)
    elif isinstance(value, list):
        collector.count(len(value))
        collector.characters(value)
        collector.elements(value)
        for item in value:
            read_plainly(item, collector)
    elif isinstance(value, str):
        collector.values((value,))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        collector.number(value)


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(["model", "messages", "stop", "seed"]), VALUES))
def test_all_of_a_document_is_read_in_its_order(document: dict[str, Any]) -> None:
    plain = TextCollector(1 << 20)
    read_plainly(document, plain)
    assert as_the_walk_reads(document)._texts == plain._texts


def as_the_walk_reads(document: dict[str, Any]) -> TextCollector:
    collector = TextCollector(1 << 20)
    extract_module._walk(document, collector)
    return collector


def test_more_messages_than_may_be_looked_at() -> None:
    def read(messages: int) -> list[str]:
        turns = [{"role": "user", "content": "x"}] * messages
        return extract_texts(DocumentCall(CHAT, {"messages": turns}), MODEL, 1 << 24)

    most = MAX_NODES // 5 - 1  # a message is five values
    assert len(read(most)) == most
    with pytest.raises(Unscannable, match="over_cap"):
        read(most + 1)


def test_no_word_of_the_protocol_tells_of_what_is_not_text() -> None:
    assert not PROTOCOL_WORDS & extract_module._TELLING_KEYS


@pytest.mark.parametrize(
    "document",
    [
        {"messages": [{"role": "user", "content": "é" * 50}]},
        {"messages": [{"role": "user", "content": c * 50} for c in "xy"]},
        {"other": ["x" * 60, "y" * 35]},
        {"ab": ["x y"] * 32, "zz": 0},
    ],
)
def test_a_call_may_hold_so_many_bytes_and_no_more(document: dict[str, Any]) -> None:
    call = DocumentCall(CHAT, document)
    assert extract_texts(call, MODEL, 100)
    with pytest.raises(Unscannable, match="over_cap"):
        extract_texts(call, MODEL, 99)
