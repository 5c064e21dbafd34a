"""Texts that two values make across their border, looked for only where a value goes on."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gateway.classify.text import collect
from gateway.classify.text.collect import TextCollector
from gateway.classify.text.extract import extract_texts
from gateway.config.model_catalog import CatalogModel
from gateway.core.operations.chat import CHAT
from gateway.core.types import DocumentCall

_PARTS = (
    *("4111", "1111 ", "-1111", "4111 1111 ", "jane", "@corp.com", ".doe", "x" * 90, "1 " * 60),
    *("", " ", "see 4111 11", "11 1111", "no more.", "4" * 85, "user", "a@", "b.org rest", "12 34"),
)


def seams(values: list[str]) -> list[str]:
    """As the rule says it: the tail of each value with the head of the next."""
    found, tail = [], ""
    for text in values:
        if text in collect.PROTOCOL_WORDS:
            continue
        head = collect._HEAD.match(text[: 2 * collect._SEAM])
        if tail and head and collect._SPLIT.search(tail + head[0]):
            found.append(tail + head[0])
        own = collect._TAIL.search(text[-2 * collect._SEAM :])
        whole = own is not None and len(own[0]) == len(text)
        tail = ((tail if whole else "") + own[0])[-collect._SEAM :] if own else ""
    return found


def test_the_seams_are_those_of_a_look_at_every_value() -> None:
    rng = random.Random(1)
    met = 0
    for _ in range(3000):
        values = rng.choices(_PARTS, k=rng.randint(1, 7))
        collector = TextCollector(1 << 20)
        collector.values(values)
        wanted = seams(values)
        met += len(wanted)
        made = list(collector.texts())
        for value in values:
            if value and not value.isspace() and value not in collect.PROTOCOL_WORDS:
                made.remove(value)
        assert sorted(made) == sorted(wanted), values
    assert met > 500


@pytest.mark.parametrize(
    "document",
    [
        {"model": "gpt-4o", "messages": [{"role": "user", "content": "@pytest.mark.slow hangs"}]},
        {"user": "u-7", "messages": [{"role": "human", "content": "@celery.task hangs"}]},
        {"turns": [{"from": "human", "value": "@bot.command is gone"}]},
        {"turns": [{"type": "text.part", "text": "@media.print is ignored"}]},
        {"messages": ["Write a flask", "@app.route('/health') def health(): pass"]},
    ],
)
def test_whoever_speaks_is_no_part_of_what_is_said(document: dict[str, object]) -> None:
    assert not [text for text in extracted(document) if "@" in text and not text.startswith("@")]


@pytest.mark.parametrize("between", [{}, {"role": "user"}, {"type": "text"}, {"from": "human"}])
def test_a_value_over_two_turns_is_read_whole(between: dict[str, str]) -> None:
    turns = [{**between, "content": "it is 4111 1111"}, {**between, "content": "1111 1111"}]
    assert "4111 11111111 1111" in extracted({"messages": turns})
    turns = [{**between, "content": "write to jane"}, {**between, "content": "@corp.com, please"}]
    assert "jane@corp.com" in extracted({"messages": turns})


def extracted(document: dict[str, Any]) -> list[str]:
    model = CatalogModel("m", "generate", ("gpu",))
    return extract_texts(DocumentCall(CHAT, document), model, 1 << 20)


@pytest.mark.parametrize("scheme", ["data:image/png;base64,", "DATA:;BASE64,", "data:a/b;Base64,"])
def test_a_data_url_is_seen_in_any_case(scheme: str) -> None:
    collector = TextCollector(1 << 20)
    collector.text(f"look at {scheme}aGVsbG8=")
    assert collector.unscannable == "unscannable:data_url"
