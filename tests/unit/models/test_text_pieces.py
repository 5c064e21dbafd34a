"""Texts are counted in pieces, and cut only where their call says so."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.models.served.text_pieces import TextPieces, Truncation, counts, truncations
from tests.unit.models import graphs

A, B, C = graphs.WORDS[2:5]
MOST = 3


@pytest.fixture
def pieces(tmp_path: Path) -> TextPieces:
    return TextPieces(graphs.tokenizer(tmp_path / "tokenizer.json"), MOST)


def asking(**parameters: Any) -> Any:
    """A request of Triton's Python backend, as far as its parameters."""
    written = json.dumps(parameters) if parameters else ""
    return SimpleNamespace(parameters=lambda: written)


def test_each_text_has_its_own_count(pieces: TextPieces) -> None:
    encoded = pieces.encoded([A, f"{A} {B} {C}"])
    assert counts(encoded).tolist() == [[1], [3]]


def test_a_longer_text_is_refused_with_its_count_and_the_limit(pieces: TextPieces) -> None:
    with pytest.raises(ValueError, match="row 1: the text has 4 tokens, and this model takes 3"):
        pieces.encoded([A, f"{A} {B} {C} {A}"])


def test_a_text_is_cut_at_the_side_that_its_own_call_names(pieces: TextPieces) -> None:
    calls = [asking(truncate="END"), asking(truncate="START"), asking()]
    text = f"{A} {B} {C} {A} {B}"
    encoded = pieces.encoded([text, text, text, A], truncations(calls, [1, 2, 1]))
    assert [one.tokens for one in encoded] == [[A, B, C], [C, A, B], [C, A, B], [A]]
    with pytest.raises(ValueError, match="row 0"):  # no call is cut by the one before
        pieces.encoded([text])


def test_a_call_may_ask_for_fewer_pieces_and_never_gets_more(pieces: TextPieces) -> None:
    text = f"{A} {B} {C} {A} {B}"
    for most, left in ((2, [A, B]), (9, [A, B, C])):
        (one,) = pieces.encoded([text], [Truncation("END", most)])
        assert one.tokens == left


@pytest.mark.parametrize(
    "parameters", [{"truncate": "MIDDLE"}, {"truncate_prompt_tokens": 0, "truncate": "END"}]
)
def test_what_cannot_be_is_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Truncation.from_request(asking(**parameters))
