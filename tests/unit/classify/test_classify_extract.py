"""What is read of a document is all that stands in it, in its order, however it is walked."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.catalog import CatalogModel
from gateway.classify.collect import PROTOCOL_WORDS, Collector
from gateway.classify.extract import extract
from gateway.types import DocumentCall, Operation

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


def read_plainly(value: Any, collector: Collector) -> None:
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
        for item in value:
            read_plainly(item, collector)
    elif isinstance(value, str):
        collector.values((value,))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        collector.number(value)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(["model", "messages", "stop", "seed"]), VALUES))
def test_all_of_a_document_is_read_in_its_order(document: dict[str, Any]) -> None:
    plain = Collector(1 << 20)
    read_plainly(document, plain)
    found = extract(DocumentCall(Operation.CHAT, document), MODEL, 1 << 20)
    assert found.texts == plain.extract().texts
