"""Texts that two values make across their border, looked for only where a value goes on."""

from __future__ import annotations

import random

import pytest

from gateway.classify.text import collect
from gateway.classify.text.collect import TextCollector

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


@pytest.mark.parametrize("scheme", ["data:image/png;base64,", "DATA:;BASE64,", "data:a/b;Base64,"])
def test_a_data_url_is_seen_in_any_case(scheme: str) -> None:
    collector = TextCollector(1 << 20)
    collector.text(f"look at {scheme}aGVsbG8=")
    assert collector.unscannable == "unscannable:data_url"
