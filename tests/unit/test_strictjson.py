"""Bodies: what was scanned is what is sent, so whatever two parsers could read apart is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.errors import BodyTooLarge, MalformedBody
from gateway.protocols import strictjson

MARKER = "MARKER"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"a":1,"a":2}', id="twice"),
        pytest.param(b'{"a":1,"\\u0061":2}', id="twice-once-escaped"),
        pytest.param(b'[{"b":{"a":1,"a":1}}]', id="twice-within"),
        pytest.param(b'{"a":NaN}', id="nan"),
        pytest.param(b"[Infinity]", id="infinity"),
        pytest.param(b"[-Infinity]", id="minus-infinity"),
        pytest.param(b"[1e999]", id="beyond-a-double"),
        pytest.param(b"[-1E+400]", id="below-a-double"),
        pytest.param(b"[" + b"9" * 250 + b"e99]", id="beyond-by-digits-and-exponent"),
        pytest.param(b"[" + b"9" * 310 + b".0]", id="beyond-by-digits"),
        pytest.param(b"[0.1e0000400]", id="beyond-behind-zeros"),
        pytest.param(b"[" + b"9" * 5000 + b"]", id="too-many-digits"),
        pytest.param(b'["\\ud800"]', id="half-a-pair"),
        pytest.param(b'["\\udc00\\ud800"]', id="pair-turned-round"),
        pytest.param(b'{"\\udfff":1}', id="half-a-pair-in-a-key"),
        pytest.param(b'{"a":[{"b":"x\\ud83d"}]}', id="half-a-pair-within"),
        pytest.param(b"\xef\xbb\xbf{}", id="byte-order-mark"),
        pytest.param('{"a":1}'.encode("utf-16"), id="utf-16"),
        pytest.param(b'{"a":"\xff"}', id="not-utf-8"),
        pytest.param(b'{"a":"\xed\xa0\x80"}', id="surrogate-in-utf-8"),
        pytest.param(b'{"a":"\xc0\xaf"}', id="overlong-utf-8"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"  ", id="blanks"),
        pytest.param(b"{} {}", id="two-values"),
        pytest.param(b"{}x", id="rest"),
        pytest.param(b"{}\x00", id="nul-behind"),
        pytest.param(b"{'a':1}", id="single-quotes"),
        pytest.param(b'{"a":1,}', id="comma"),
        pytest.param(b"[1,]", id="comma-in-list"),
        pytest.param(b'{"a":01}', id="leading-zero"),
        pytest.param(b'{"a":+1}', id="plus"),
        pytest.param(b'{"a":.5}', id="no-digit-before-the-point"),
        pytest.param(b'{"a":5.}', id="no-digit-after-the-point"),
        pytest.param(b'{"a":0x1}', id="hexadecimal"),
        pytest.param(b'{"a":"\t"}', id="control-character"),
        pytest.param(b'{"a":"\\x41"}', id="escape-of-no-kind"),
        pytest.param(b'{"a":"\\u00e"}', id="short-escape"),
        pytest.param(b"{a:1}", id="bare-key"),
        pytest.param(b"{1:1}", id="number-as-key"),
        pytest.param(b"// c\n{}", id="comment"),
        pytest.param(b"\x0b{}", id="vertical-tab"),
        pytest.param("\u00a0{}".encode(), id="no-break-space"),
        pytest.param(b"True", id="python"),
        pytest.param('{"a":\u0661}'.encode(), id="arabic-digit"),
        pytest.param(b"[" * 65 + b"]" * 65, id="too-deep"),
        pytest.param(b'{"a":' * 65 + b"1" + b"}" * 65, id="objects-too-deep"),
        pytest.param(b"[" * 600 + b"]" * 600, id="deeper-than-is-written-again"),
        pytest.param(b"[" * 100_000, id="far-too-deep"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, id="far-too-deep-and-closed"),
    ],
)
def test_a_body_that_two_parsers_could_read_apart_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedBody):
        strictjson.loads(body)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b' {"a" : [1, -2.5, true, null, "\\u00fc\\n"]}\r\n', {"a": [1, -2.5, True, None, "ü\n"]}),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'{"a":1,"A":2,"a ":3}', {"a": 1, "A": 2, "a ": 3}),
        (b'[{"a":1},{"a":1}]', [{"a": 1}, {"a": 1}]),
        (b"[1e308, 1e-400, 0e999]", [1e308, 0.0, 0.0]),
        (b"[18446744073709551617]", [2**64 + 1]),
        (b'"\\u0000"', "\x00"),
        (b"[" * 64 + b"]" * 64, None),
        (b"1", 1),
    ],
)
def test_what_json_says_is_read_as_it_stands(body: bytes, value: Any) -> None:
    found = strictjson.loads(body)
    assert value is None or found == value


def test_brackets_in_strings_are_not_depth() -> None:
    assert strictjson.loads(b'["' + b"[{" * 500 + b'"]')


def test_many_brackets_beside_each_other_are_not_depth() -> None:
    assert len(strictjson.loads(b"[" + b'[{"a": []}],' * 500 + b"0]")) == 501


@pytest.mark.parametrize("body", [b"[]", b'"a"', b"1", b"null", b"true"])
def test_a_body_that_is_not_an_object_is_refused_where_one_must_be(body: bytes) -> None:
    with pytest.raises(MalformedBody, match="object"):
        strictjson.load_object(body)


@pytest.mark.parametrize(
    "body",
    [
        f'{{"{MARKER}":1,"{MARKER}":2}}'.encode(),
        f'{{"a":"{MARKER}'.encode(),
        f'{{"a":{MARKER}}}'.encode(),
        f'["{MARKER}", NaN]'.encode(),
        f'["{MARKER}", "\\ud800"]'.encode(),
        f'["{MARKER}", 1e999]'.encode(),
        f'["{MARKER}", {"9" * 5000}]'.encode(),
        f'["{MARKER}"'.encode() + b"\xff]",
        b"[" * 100_000 + MARKER.encode(),
    ],
)  # fmt: skip
def test_no_refusal_drags_the_body_along(body: bytes) -> None:
    """C12: not in its words, and not in an exception behind it."""
    with pytest.raises(MalformedBody) as caught:
        strictjson.loads(body)
    assert MARKER not in str(caught.value)
    assert caught.value.__cause__ is None
    behind = caught.value.__context__
    assert behind is None or MARKER not in repr(vars(behind)) + repr(behind)


def test_a_refusal_says_where() -> None:
    with pytest.raises(MalformedBody, match="line 2 column 4"):
        strictjson.loads(b'{"a":\n 1 x}')
    with pytest.raises(MalformedBody, match="byte 6"):
        strictjson.loads(b'{"a":"\xff"}')


@pytest.mark.parametrize(
    "body",
    [
        rb'{"\"":1,"\"":2}',
        rb'{"a\\":1,"a\\":2}',
        rb'{"\\\"":1,"\\\"":2}',
        rb'{"a":"\\","a":"\\"}',
        b'{"a":{"b":[{"c":1,"c":[]}]}}',
        b'{"":"\\u0022","":""}',
        b'{"x":"\\u0022\\u0022","a":1,"a":2}',
        b'{"x":"\\u005c\\u0022","a":"","a":"\\\\"}',
        b'{"a":"b","a":{"a":"\\"\\"\\""}}',
        b'[{"x":[' + b"1," * 20 + b'1],"x":[]}]',
    ],
)
def test_a_key_twice_is_seen_among_escaped_quotation_marks(body: bytes) -> None:
    with pytest.raises(MalformedBody, match="same key twice"):
        strictjson.loads(body)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_sent_is_what_was_read(value: Any) -> None:
    sent = strictjson.dumps(value)
    assert strictjson.loads(sent) == value
    assert json.loads(sent) == value


@given(st.integers(1, 400), st.integers(-500, 500))
def test_no_number_becomes_an_infinity(digits: int, exponent: int) -> None:
    body = b"[%se%d]" % (b"7" * digits, exponent)
    try:
        (found,) = strictjson.loads(body)
    except MalformedBody:
        assert digits + exponent > 300
    else:
        assert math.isfinite(found)


STRINGS = st.text(st.sampled_from('ab"\\\\:,{}[] \n\u00fc\U0001f600'), max_size=4)
NUMBERS = st.sampled_from(
    ["0", "-0", "1", "1.5", "1e5", "-0.0", "9" * 17, str(2**63), str(2**64), "-" + str(2**63 + 1)]
) | st.floats(allow_nan=False, allow_infinity=False).map(repr)
BLANKS = st.sampled_from(["", " ", "\n", "\t "])


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    """As JSON text, in which a key may stand twice, once escaped perhaps."""
    keys = [json.dumps(k, ensure_ascii=draw(st.booleans())) for k in draw(st.lists(STRINGS))]
    blank = draw(BLANKS)
    return "{" + ",".join(f"{blank}{k}{blank}:{blank}{draw(inner)}" for k in keys) + "}"


WRITTEN = st.recursive(
    st.sampled_from(["null", "true", "[]", "{}"])
    | NUMBERS
    | st.builds(json.dumps, STRINGS, ensure_ascii=st.booleans()),
    lambda inner: (
        st.lists(inner, max_size=20).map(lambda items: f"[{' ,'.join(items)}]") | objects(inner)
    ),
    max_leaves=12,
)


def outcome(read: Callable[[bytes], Any], body: bytes) -> Any:
    try:
        return repr(read(body))
    except MalformedBody as exc:
        return str(exc)


@settings(max_examples=300)
@given(WRITTEN)
def test_the_size_of_an_object_is_that_of_what_is_sent(text: str) -> None:
    try:
        document, size = strictjson.sized_object(b'{"a":%b}' % text.encode())
    except MalformedBody:
        return
    assert size in (0, len(strictjson.dumps(document)))


def test_the_size_of_an_object_leaves_spaces_and_escapes_out() -> None:
    document = {"model": "m", "messages": [{"role": "user", "content": 'Zürich "8001"'}]}
    body = json.dumps(document, indent=2).encode()
    assert strictjson.sized_object(body) == (document, len(strictjson.dumps(document)))


@settings(max_examples=300)
@given(WRITTEN, st.integers(1, 5))
def test_the_fast_way_reads_what_the_wary_one_reads(text: str, depth: int) -> None:
    body = text.encode()
    assert outcome(lambda b: strictjson.loads(b, depth), body) == outcome(
        lambda b: strictjson.read_warily(b, depth), body
    )


@settings(max_examples=300)
@given(WRITTEN.map(str.encode), st.integers(0, 500), st.binary(max_size=3))
def test_the_fast_way_refuses_what_the_wary_one_refuses(body: bytes, at: int, put: bytes) -> None:
    broken = body[:at] + put + body[at + 1 :]
    assert outcome(strictjson.loads, broken) == outcome(strictjson.read_warily, broken)


FEW = strictjson.JsonBounds(members=100, values=1000, size=100_000)


@pytest.mark.parametrize(
    ("body", "bound"),
    [
        (b"[" + b",".join([b"[]"] * 100) + b"]", "max_json_members"),
        (b"[" + b",".join([b"{}"] * 100) + b"]", "max_json_members"),
        (b"{" + b",".join(b'"%d":1' % n for n in range(100)) + b"}", "max_json_members"),
        (b"[" + b",".join([b"1"] * 1001) + b"]", "max_json_values"),
        (b'["' + b"a" * 100_000 + b'"]', "max_json_bytes"),
    ],
)
def test_a_body_with_more_than_the_bounds_is_refused_by_their_name(body: bytes, bound: str) -> None:
    with pytest.raises(BodyTooLarge, match=bound):
        strictjson.loads(body, 64, FEW)


@pytest.mark.parametrize(
    "value",
    [
        ["[{:,}]" * 1000],
        ['a"[\\"{:,' * 1000, "\\", '"'],
        {"[" * 400: ":" * 400},
        [[]] * 99,
        {str(n): n for n in range(99)},
        list(range(1000)),
    ],
)
def test_punctuation_within_strings_is_no_member(value: object) -> None:
    assert strictjson.loads(json.dumps(value).encode(), 64, FEW) == value
    assert strictjson.loads(json.dumps(value, separators=(",", ":")).encode(), 64, FEW) == value


@pytest.mark.parametrize(
    "end",
    [b'"a":1,"a":2}', b'"a":%d}' % 10**25, b'"a":NaN}', b'"a":', b'"a":"' + rb"\ud800" + b'"}'],
)
def test_a_large_body_that_needs_the_wary_reader_is_refused(end: bytes) -> None:
    """It takes its time by the size of the body, and nothing else runs meanwhile."""
    body = b'{"text":"' + b"a" * strictjson._WARY_BYTES + b'",' + end
    with pytest.raises(MalformedBody, match=r"^the body (has|is)") as refusal:
        strictjson.loads(body)
    assert len(refusal.value.message) < 100
