"""Names in the other forms of a text (C4), within the budget of the whole search (C9)."""

from __future__ import annotations

import asyncio
import base64
import gzip
from collections.abc import Sequence

import pytest

from gateway.classify import ScanLate
from gateway.classify.names import Enough
from gateway.classify.names.forms import find_in_all_forms
from gateway.classify.text.decoding import may_hold_words
from gateway.classify.text.normalise import wordings
from gateway.core.types import Finding


class Annas:
    """Finds `Anna Schmidt`, however little time there is."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def start(self) -> None: ...
    async def aclose(self) -> None: ...

    async def find(
        self,
        texts: Sequence[str],
        budget_s: float,
        lone: Sequence[bool] | None = None,
        enough: Enough | None = None,
    ) -> list[list[Finding]]:
        self.asked += texts
        name = "Anna Schmidt"
        found = [(t, t.find(name)) for t in texts]
        return [[Finding("PERSON", at, at + len(name), 0.9)] if at >= 0 else [] for _, at in found]


def find(text: str, budget_s: float = 5.0, allowed: Sequence[str] = ()) -> list[Finding]:
    (found,) = asyncio.run(find_in_all_forms(Annas(), [text], budget_s, allowed))
    return found


@pytest.mark.parametrize(
    "text",
    [
        "ask Anna Schmidt",
        "ask Anna%20Schmidt",
        "ask A&#110;na Schmidt",
        "ask Аnna Schmidt",  # noqa: RUF001 - a Cyrillic capital
        "ask An\u200bna Schmidt",
        "ask QW5uYSBTY2htaWR0IHdhcyBoZXJlIHllc3RlcmRheQ==",
    ],
)
def test_a_name_is_found_in_whatever_form(text: str) -> None:
    (found,) = find(text)
    assert found.type == "PERSON"
    assert 0 <= found.start < found.end <= len(text)


@pytest.mark.parametrize("sign", ["++", "//", "--", "__"])
@pytest.mark.parametrize("around", ["{}", "data: {} end", '{{"v": "{}"}}', "see **this** {}"])
def test_a_name_in_a_code_with_doubled_signs_is_found(sign: str, around: str) -> None:
    """Folding takes one of two signs for a mark that stands twice."""
    encode = base64.b64encode if sign in "++//" else base64.urlsafe_b64encode
    codes = (encode(gzip.compress(b"%d, ask Anna Schmidt" % n)).decode() for n in range(100_000))
    assert find(around.format(next(code for code in codes if sign in code)))


_NAME = "ask Anna Schmidt"


@pytest.mark.parametrize("around", ["{}", "é {} end", "2024-05-01 16:00\n{}\n"])
@pytest.mark.parametrize(
    "between", [" ", ":", ": ", "-", ",\n ", ", 0x", "\u2003", "\u00a0", "\x1f", "        "]
)
def test_a_name_in_octets_is_found_whatever_stands_between_them(around: str, between: str) -> None:
    assert find(around.format(between.join(f"{ord(c):02x}" for c in _NAME)))


@pytest.mark.parametrize("around", ["{}", "é {} end", "1, 2, 3 [{}]"])
@pytest.mark.parametrize("digits", ["0123456789", "٠١٢٣٤٥٦٧٨٩"])
@pytest.mark.parametrize("between", [" ", ",", "', '", ";\n", "\u2003", " " * 12])
def test_a_name_in_character_codes_is_found(around: str, digits: str, between: str) -> None:
    codes = between.join(str(ord(c)) for c in _NAME)
    assert find(around.format(codes.translate(dict(zip(range(48, 58), digits, strict=True)))))


def test_a_name_in_code_points_is_found() -> None:
    assert find("say u+" + " U+".join(f"{ord(c):04X}" for c in _NAME))


@pytest.mark.parametrize(
    "text",
    ["2024-05-01 16:00", "sort 3, 1, 2, 9, 5", "de:ad:be:ef:00:11", "a very_long_name_in_small"],
)
def test_usual_numbers_and_names_hide_no_words(text: str) -> None:
    assert not may_hold_words(text)


def test_a_name_that_the_text_itself_shows_is_told_once() -> None:
    assert find("ask <b>Anna Schmidt</b>") == [Finding("PERSON", 7, 19, 0.9)]


def test_an_allowed_name_is_none() -> None:
    assert find("ask Anna%20Schmidt", allowed=["Anna Schmidt"]) == []


def test_forms_that_take_too_long_are_late() -> None:
    with pytest.raises(ScanLate):
        find("%41" * 5_000, budget_s=0.0)


@pytest.mark.parametrize("text", ["Plain prose, with a comma.", "f(x) + 1"])
def test_prose_has_no_other_form(text: str) -> None:
    assert wordings(text) == ()
