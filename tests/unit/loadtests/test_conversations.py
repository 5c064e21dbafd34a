"""Conversations of clean prompts, and what is said of how many are restricted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadtests.classify.conversations import OWN, Verdicts, conversations, lines, prompts, wilson


@pytest.mark.parametrize(
    ("part", "total", "low", "high"),
    [(0, 100, 0.0, 0.0370), (5, 100, 0.0215, 0.1118), (50, 100, 0.4038, 0.5962), (3, 3, 0.4385, 1)],
)
def test_the_interval_is_wilson_s(part: int, total: int, low: float, high: float) -> None:
    """Values of Newcombe (1998), table I, and of Brown, Cai and DasGupta (2001)."""
    assert wilson(part, total) == pytest.approx((low, high), abs=2e-4)


def test_our_prompts_are_there_in_eight_languages_and_once_each() -> None:
    texts = prompts(OWN, ["none"], [])
    assert set(texts) == {"en", "de", "fr", "es", "it", "pt", "nl", "pl"}
    every = [json.loads(line)["text"] for line in OWN.read_text("utf-8").splitlines()]
    assert len(set(every)) == len(every)


def test_a_conversation_is_in_one_language_and_ends_with_its_user() -> None:
    texts = prompts(OWN, ["none"], ["de", "fr"])
    for chat in conversations(texts, 50, 1):
        told = [message["content"].split("\n\n")[0] for message in chat]
        assert any(all(text in own for text in told) for own in texts.values())
        assert chat[-1]["role"] == "user"
    assert list(conversations(texts, 9, 2)) == list(conversations(texts, 9, 2))


def test_classes_and_languages_are_those_that_are_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "some.jsonl"
    records = [("a", "en", "none"), ("b", "de", "none"), ("c", "en", "contains_pii")]
    keys = ("text", "lang", "benign_class")
    file.write_text(
        "\n".join(json.dumps(dict(zip(keys, r, strict=True))) for r in records), encoding="utf-8"
    )
    assert prompts(tmp_path, ["none"], []) == {"en": ["a"], "de": ["b"]}
    assert prompts(file, ["none", "contains_pii"], ["en"]) == {"en": ["a", "c"]}


def test_a_conversation_counts_once_and_for_its_first_restricted_call() -> None:
    verdicts = Verdicts()
    clear = {"sensitivity": "clear", "classify_reason": "clear", "entities": {}}
    first = {"sensitivity": "restricted", "classify_reason": "entities", "entities": {"PERSON": 2}}
    later = {"sensitivity": "restricted", "classify_reason": "tainted", "entities": {}}
    verdicts.count([], [clear, clear])
    verdicts.count([], [clear, first, later])
    of_conversations, of_calls = lines("balanced", verdicts)
    assert (of_conversations["restricted"], of_conversations["total"]) == (1, 2)
    assert (of_calls["restricted"], of_calls["total"]) == (2, 5)
    assert of_calls["reasons"] == {"entities": 1}
    assert of_calls["types"] == {"PERSON": 1}
