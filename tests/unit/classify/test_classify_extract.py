"""What is read of a document is all that stands in it, in its order, however it is walked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.classify.text import extract as extract_module
from gateway.classify.text.collect import (
    MAX_NODES,
    PROTOCOL_WORDS,
    TextCollector,
    Unscannable,
    plain_texts,
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


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(["model", "messages", "stop", "seed"]), VALUES))
def test_all_of_a_document_is_read_in_its_order(document: dict[str, Any]) -> None:
    plain = TextCollector(1 << 20)
    read_plainly(document, plain)
    assert as_the_walk_reads(document)._texts == plain._texts


TURNS = st.lists(
    st.fixed_dictionaries({"role": WORDS, "content": WORDS | st.text(max_size=100)}) | MESSAGES,
    max_size=5,
)
CHATS = st.dictionaries(
    st.sampled_from(["model", "messages", "seed", "user", "max_tokens", "stop", "top_k"]),
    SCALARS | TURNS | st.text(max_size=100),
    max_size=5,
)


def as_the_walk_reads(document: dict[str, Any]) -> TextCollector:
    collector = TextCollector(1 << 20)
    extract_module._document(document, collector)
    return collector


@settings(max_examples=600, deadline=None)
@given(CHATS)
def test_the_usual_chat_is_read_as_the_walk_reads_it(document: dict[str, Any]) -> None:
    walked = as_the_walk_reads(document)
    said = extract_module._message_texts(document)
    if said is None:
        return
    collected = TextCollector(1 << 20)
    collected.values(said)
    assert (collected._texts, collected.unscannable) == (walked._texts, walked.unscannable)
    assert plain_texts(said) in (None, walked._texts)
    if plain_texts(said) is not None:
        assert walked.unscannable is None


@pytest.mark.parametrize(
    ("said", "plain"),
    [
        (["chat", "user", "hello; there", " ", ""], ["chat", "hello; there"]),
        (["12 34", "hello"], ["12 34", "hello"]),
        (["hello", "12 34"], None),  # may go on with what stands before it
        (["gpt", "look at data:image/png;base64,aGVsbG8="], None),
        (["gpt", '["4111\\u0020"]'], None),
    ],
)
def test_texts_that_need_no_closer_look(said: list[str], plain: list[str] | None) -> None:
    assert plain_texts(said) == plain


def test_more_messages_than_may_be_looked_at() -> None:
    def read(messages: int) -> list[str]:
        turns = [{"role": "user", "content": "x"}] * messages
        return extract_texts(DocumentCall(CHAT, {"messages": turns}), MODEL, 1 << 24)

    most = MAX_NODES // 5 - 1  # a message is five values
    assert len(read(most)) == most
    with pytest.raises(Unscannable, match="over_cap"):
        read(most + 1)


def test_the_short_way_reads_a_usual_chat_and_no_other() -> None:
    turns = [{"role": "user", "content": "hello"}, {"content": "hi", "role": "assistant"}]
    usual = {"model": "chat", "messages": turns, "max_tokens": 100, "stream": False, "stop": None}
    assert extract_module._message_texts(usual) == ["chat", "user", "hello", "hi", "assistant"]
    others: list[dict[str, Any]] = [
        {"top_k": 4},  # a field that is no word of the protocol
        {"seed": 10**6},
        {"temperature": float("nan")},
        {"stop": ["end"]},
        {"tools": turns},
        {"metadata": {"name": "x"}},
        {"messages": [*turns, {"role": "user", "content": None}]},
        {"messages": [*turns, {"role": "user", "content": [{"type": "text", "text": "x"}]}]},
        {"messages": [*turns, {"role": "user", "content": "x", "name": "y"}]},
        {"messages": [*turns, {"role": "user", "name": "y"}]},
        {"messages": [*turns, "x"]},
    ]
    for other in others:
        assert extract_module._message_texts(usual | other) is None, other


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
