"""C4 and C5: the same value in another dress, or across a border, gets the same verdict."""

from __future__ import annotations

import base64
import gzip
import json
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.classify.profile import Profile
from gateway.classify.scanner.cards import is_card_number
from gateway.classify.scanner.recognizers import OVERLAP, WINDOW, PresidioScanner, windows
from gateway.classify.text import folding, normalise
from gateway.config import ClassifySettings

PROFILE = Profile.from_settings(ClassifySettings())
SSN = "ssn 536-90-4399"
MAIL = "maria.keller@posteo.example"


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


HIDDEN = {
    "full-width": "card ４１１１ １１１１ １１１１ １１１１",  # noqa: RUF001
    "zero-width": "card 4111\u200b1111\u200b1111\u200b1111",
    "word joiner": "ssn 536\u2060-90\u2060-4399",
    "soft hyphen": "ssn 53\u00ad6-90-43\u00ad99",
    "variation selectors": "ssn 5\ufe0f36-90-4399",
    "no-break hyphen": "ssn 536\u201190\u20114399",
    "en dash": "ssn 536\u201390\u20134399",
    "thin space": "card 4111\u20091111\u20091111\u20091111",
    "Arabic digits": " ".join(["\u0664\u0661\u0661\u0661"] + ["\u0661" * 4] * 3),
    "Devanagari digits": " ".join(["\u096a\u0967\u0967\u0967"] + ["\u0967" * 4] * 3),
    "keycaps": "card " + "".join(d + "\ufe0f\u20e3" for d in "4111111111111111"),
    "mathematical digits": "card " + "".join(chr(0x1D7CE + int(d)) for d in "4111111111111111"),
    "tag characters": "hello " + "".join(chr(0xE0000 + ord(c)) for c in "536-90"),
    "Cyrillic letter": "m\u0430ria.keller@posteo.example",
    "percent": "mail maria.keller%40posteo.example",
    "double percent": "mail maria.keller%2540posteo.example",
    "HTML entities": "&#x34;&#49;11 1111 1111 1111",
    "literal escapes": "\\u0035\\u0033\\u0036-90-4399",
    "hex escapes": "\\x35\\x33\\x36-90-4399",
    "quoted-printable": "maria.keller=40posteo.example",
    "HTML tags": "ssn 536<b>-90-</b>4399",
    "emphasis": "ssn 536-90-**4399**",
    "underscores": "card 4111_1111_1111_1111",
    "one by one": "card 4-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1",
    "new lines": "card 4111\n1111\n1111\n1111",
    "groups of two": "card 41 11 11 11 11 11 11 11",
    "doubled separators": "WhatsApp ++1--212--555--0198",
    "[at] [dot]": "maria.keller [at] posteo [dot] example",
    "at dot": "maria dot keller at posteo dot example",
    "spaces": "maria.keller @ posteo . example",
    "spelled": "card four one one one, one one one one, one one one one, one one one one",
    "base64": b64("my " + SSN),
    "base64 twice": b64(b64("my " + SSN)),
    "base64 of gzip": base64.b64encode(gzip.compress(SSN.encode())).decode(),
    "base32": base64.b32encode(SSN.encode()).decode(),
    "hex": ("my " + SSN).encode().hex(),
    "spaced hex": " ".join(f"{ord(c):02x}" for c in SSN),
    "JWT": f"Bearer eyJhbGciOiJIUzI1NiJ9.{b64(json.dumps({'email': MAIL}))}.c2ln",
    "character codes": str([ord(c) for c in SSN]),
    "elements of a tensor": base64.b64encode(b"\5\0\0\0hello\x0f\0\0\0" + SSN.encode()).decode(),
    "UTF-16": SSN.encode("utf-16-le").decode(),
    "reversed": "mail \u202eelpmaxe.oetsop@airam\u202c",
}  # fmt: skip

HARMLESS = {
    "Luhn fails": "SHA 4111111111111112",
    "one digit more": "Order 536-90-43990 shipped",
    "version": "version 10.2.33.4 of the driver",
    "genome": "chr7:55,241,707-55,242,515",
    "time stamps": "epoch 1700000000000, 1700000001000",
    "arguments": "call f(212, 555, 1980)",
    "RFC": "RFC 2822, section 3.4.1",
    "list": "[10, 15, 12, 14, 11] and [18, 16, 17, 20, 22]",
    "at point": "the field at a point located at dot products of 3 and 4",
    "see you at": "see you at example.com tomorrow",
    "columns": "2022-02-02,161.80,164.25,161.30,163.90,17689200\n2022-03-01,165.40,168.35,163.10",
    "names in code": "import os.sys; x1 = re.compile(y2).match(z3.z)",
    "codes of no text": "[10, 20, 30, 200, 250, 99, 41, 42, 43, 44]",
    "flag of Scotland": "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "emoji": "a family \U0001f468\u200d\U0001f469\u200d\U0001f467 and a heart \u2764\ufe0f",
    "prose with dashes": "It was \u2013 as so often \u2013 a \u201cgood\u201d idea; na\u00efve.",
    "code": "for i in range(1000000): x[i] = y[i] ** 2 + 0x7fffffff",
    "long word": "a" * 3000,
    "rule": "=" * 200 + "-" * 200,
}


def restricts(scanner: PresidioScanner, text: str) -> bool:
    return PROFILE.restricts(scanner.scan(text))


@pytest.mark.parametrize("dress", HIDDEN)
def test_a_value_in_another_dress_restricts(dress: str, scanner: PresidioScanner) -> None:
    assert restricts(scanner, HIDDEN[dress])


@pytest.mark.parametrize("trap", HARMLESS)
def test_what_only_looks_alike_does_not_restrict(trap: str, scanner: PresidioScanner) -> None:
    assert not restricts(scanner, HARMLESS[trap])


def test_findings_in_the_text_itself_have_exact_offsets(scanner: PresidioScanner) -> None:
    text = "h\u00e9llo, mail maria.keller@posteo.example now"
    (found,) = [f for f in scanner.scan(text) if f.type == "EMAIL_ADDRESS"]
    assert text[found.start : found.end] == "maria.keller@posteo.example"


def test_findings_in_a_derived_form_cover_the_part_they_came_from(scanner: PresidioScanner) -> None:
    text = "first line\nssn 536\u201390\u20134399\nlast line"
    (found,) = [f for f in scanner.scan(text) if f.type == "US_SSN"]
    assert "536\u201390\u20134399" in text[found.start : found.end]
    assert found.end <= text.index("\nlast")


@pytest.mark.parametrize(
    ("value", "kind"),
    [("536-90-4399", "US_SSN"), ("a" * 60 + "@" + "b" * 60 + ".example", "EMAIL_ADDRESS")],
)
def test_a_value_is_found_at_every_offset_around_a_border(
    value: str, kind: str, scanner: PresidioScanner
) -> None:
    """Over a whole window and its overlap, in steps that meet every offset near the borders."""
    near = range(WINDOW - OVERLAP - len(value) - 8, WINDOW - OVERLAP + 8)
    far = range(WINDOW - len(value) - 8, WINDOW + 8)
    step = 1 if len(value) < 20 else 7
    for before in {*near[::step], *far[::step], *range(0, 2 * WINDOW, 397)}:
        text = ("word " * (before // 5 + 1))[:before] + " " + value + " word" * 90
        spans = {(f.start, f.end) for f in scanner.scan(text) if f.type == kind}
        assert (before + 1, before + 1 + len(value)) in spans, before


def test_windows_cover_the_text_and_overlap() -> None:
    text = "".join(chr(33 + i % 90) for i in range(3 * WINDOW + 17))
    parts = list(windows(text))
    assert all(text[at : at + len(part)] == part for at, part in parts)
    assert all(a[0] + len(a[1]) - b[0] == OVERLAP for a, b in pairwise(parts))
    assert parts[-1][0] + len(parts[-1][1]) == len(text)


@pytest.mark.parametrize(
    ("digits", "valid"),
    [
        ("4111111111111111", True),
        ("4111111111111112", False),
        ("5555555555554444", True),
        ("2223003122003222", True),  # 2-series Mastercard
        ("3530111333300000", True),  # JCB
        ("6304000000000000", True),  # Maestro
        ("6011111111111117", True),
        ("4000000000000000006", True),  # 19 digits
        ("1700000000000000", False),
        ("0000000000000000", False),
        ("411111111111", False),
    ],
)
def test_card_numbers(digits: str, valid: bool) -> None:
    assert is_card_number(digits) == valid


@pytest.mark.parametrize(
    "unit",
    [
        "a.",
        "a@",
        "1-",
        "at dot ",
        "one two ",
        "QUJD",
        "%25",
        "<a",
        "\u00e9\u2013",
        "\\u0041",
        "x@y.",
    ],
)
def test_deriving_forms_of_64_kb_takes_bounded_time_and_room(unit: str) -> None:
    text = (unit * 65_536)[:65_536]
    started_s = time.monotonic()
    forms = normalise.derived(text)
    assert sum(len(p.text) for p in forms.pieces) <= 7 * len(text)
    assert time.monotonic() - started_s < 10  # 0.1 to 0.7 s when idle; quadratic steps take minutes


def test_what_is_cut_off_by_a_bound_counts_as_hidden() -> None:
    deep = SSN
    for _ in range(6):
        deep = b64(deep)
    assert normalise.derived(deep).hidden


@settings(max_examples=200)
@given(st.text(max_size=300))
def test_folding_is_total_and_plain_text_is_left_alone(text: str) -> None:
    folded = folding.fold(text)
    assert folding.fold("plain words, and 12 numbers") == "plain words, and 12 numbers"
    for form, start, end in folding.changes(
        text, [folding.fold(line) for line in text.split("\n")]
    ):
        assert 0 <= start <= end <= len(text)
        assert form is not None
    assert isinstance(folded, str)


@settings(max_examples=300)
@given(
    st.text(
        st.sampled_from("a1B@ .-/_+*`\n\r\x00%2D=&#;\\nux<b>\u00a0\u202e\u202c\u0430\u0301"),
        max_size=60,
    )
)
def test_each_line_is_folded_by_itself(text: str) -> None:
    assert folding.fold(text) == "\n".join(map(folding.fold, text.split("\n")))


def test_the_evasion_set(scanner: PresidioScanner, kit: Any) -> None:
    path = kit.shared / "evasion.dev.jsonl"
    if not path.is_file():
        pytest.skip("the development sets are not here")
    hit = traps = wanted = 0
    for record in map(json.loads, path.read_text("utf-8").splitlines()):
        text = record["text"]
        if record.get("binary"):
            text = base64.b64decode(text).decode("utf-8", "replace")
        restricted = restricts(scanner, text)
        if record["expect"] == "sensitive":
            wanted, hit = wanted + 1, hit + restricted
        else:
            traps += restricted
    assert hit >= 0.75 * wanted
    assert traps <= 1
