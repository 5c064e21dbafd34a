"""The signs of text that reads otherwise when decoded: one for each way, and none to spare."""

from __future__ import annotations

import functools
import sys
import unicodedata

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.classify.gate import necessary, triggers
from gateway.classify.gate.database import DatabaseExpression, PatternDatabase
from gateway.classify.patterns.alphabet import Alphabet
from gateway.classify.patterns.syntax import char_sets, parse
from gateway.classify.text import folding

DOTALL, CASELESS = 16, 2


@functools.cache
def compiled() -> tuple[Alphabet, PatternDatabase]:
    signs = [
        (t, parse(t.expression, DOTALL | (CASELESS if t.caseless else 0)))
        for t in triggers.all_triggers()
    ]
    alphabet = Alphabet.from_sets({found for _, node in signs for found in char_sets(node)})
    sought = [DatabaseExpression(t.name, node) for t, node in signs]
    return alphabet, PatternDatabase.compile(sought, functools.cache(alphabet.class_bytes))


def signs_in(text: str) -> set[str]:
    alphabet, database = compiled()
    hits = database.scan(alphabet.encode(text))
    assert hits is not None
    names = [t.name for t in triggers.all_triggers()]
    return {names[number] for number, _ in hits}


ALONE = (
    ("address", "a @ b.c"),
    ("bracketed at", "john [at] corp"),
    ("spoken address", "write to john at corp dot example please"),
    ("spoken number", "it is five five five oh one two three"),
    ("pairs of hex", "ab cd ef fa be ad ec da fe"),
    ("blob", "abcdefghijklmnopqrstuvwxyz" * 40),
    ("octets in hex", "0x5c, 0x5d, 0x5e, 0x5f, 0x6a, 0x6b, 0x6c, 0x6d"),
    ("code points", "U+0040 U+0040 U+0040 U+0040 U+0040 U+0040 U+0040 U+0040"),
    ("run", "see c29tZSB3b3JkcyB0aGF0 there"),
    ("run over lines", "someverylongwordthatgoeson\nand"),
    ("digits in base64", "see NTM2LTkw there"),
    ("number", "call 212 555 now"),
    ("list of numbers", "1,2,3,4,5,6,7,8,9"),
    ("numbers over lines", "12\n34"),
    ("percent", "a%2Db"),
    ("entity", "a&#x2d;b"),
    ("escape", r"a\u002db"),
    ("escaped sign", r"a\-b"),
    ("soft break", "a=\nb"),
    ("quoted-printable", "a=2Db"),
    ("tag", "a <b>c"),
    ("mark", "pass**word"),
    ("underscores", "- __ -"),
    ("doubled separator", "a--b"),
    ("tags of Unicode", "« \U000e0041 »"),
    ("reversed", "« \u202e »"),
    ("folded character", "a \uff41 b"),
    ("separator beyond ASCII", "a\u2013b"),
    ("marked", "e\u0301"),
    ("look-alike", "p\u0430y"),
    ("digit of another script", "a \u0664 b"),
)


@pytest.mark.parametrize(("name", "text"), ALONE)
def test_each_sign_is_the_only_one_that_sees_something(name: str, text: str) -> None:
    assert signs_in(text) == {name}


def test_every_sign_has_its_case() -> None:
    assert {name for name, _ in ALONE} == {t.name for t in triggers.all_triggers()}


@pytest.mark.parametrize(
    "text",
    [
        "The quick brown fox jumps over the lazy dog.",
        "In 2023, 5 of 12 teams (about 42.5 %) met at noon; see chapter 3.1 and table 7.",
        "Naïve café, \u201cquoted\u201d \u2013 and yet: don\u2019t. 東京は日本の首都です。",
        "Привет, мир!",
        "def total_price(items): return sum(item.price for item in items)",
    ],
)
def test_everyday_text_shows_no_sign(text: str) -> None:
    assert signs_in(text) <= {"separator beyond ASCII"}


_OF_NO_VALUE = frozenset("!?")
_ASCII = tuple(map(chr, range(128)))


def test_no_character_of_unicode_folds_to_ascii_unseen() -> None:
    beyond = [regex.compile(t.expression) for t in triggers.all_triggers() if not _in_ascii(t)]
    unseen = []
    for point in range(0x80, sys.maxunicode + 1):
        text = f"a{chr(point)}1"
        if _may_fold(chr(point)) and _shown(text) and not any(b.search(text) for b in beyond):
            unseen.append(f"U+{point:04X}")
    assert unseen == []


def _in_ascii(trigger: triggers.Trigger) -> bool:
    """Whether it can be seen in a text of ASCII."""
    node = parse(trigger.expression, DOTALL)
    return necessary.among(node, lambda found: any(map(found.compiled().match, _ASCII))) is not None


def _may_fold(char: str) -> bool:
    """What costs less to ask than to fold; surrogates are no characters."""
    category = unicodedata.category(char)
    return category in ("Nd", "Zs", "Pd", "Cf", "Mn", "Lo", "Me", "Co") or (
        category != "Cs" and unicodedata.normalize("NFKC", char) != char
    )


def _shown(text: str) -> bool:
    """Whether folding puts something of ASCII where there was none, or takes a character away."""
    folded = folding.fold(text)
    return folded != text and folded.isascii() and not _OF_NO_VALUE & set(folded)


@settings(max_examples=400)
@given(st.text(st.sampled_from("a1@ .-/_+*`\n\x00\x07<,é"), max_size=40))
def test_without_marks_and_doubled_separators_a_line_is_folded(text: str) -> None:
    """What the gate does in place of folding, where nothing has to be decoded."""
    found = signs_in(text)
    if found & {"folded character", "separator beyond ASCII", "marked", "tag"}:
        return
    assert folding.collapsed(folding.unmarked(text)) == folding.fold(text)


@pytest.mark.parametrize("mark", ["*", "**", "`", "__", "\x01"])
@pytest.mark.parametrize("text", ["4111{}\n1111{}\n1111{}\n1111", "{}4111\n{}1111\n{}1111\n{}1111"])
def test_marks_at_the_ends_of_lines_count_too(mark: str, text: str) -> None:
    assert signs_in(text.replace("{}", mark)) & {"mark", "underscores"}
