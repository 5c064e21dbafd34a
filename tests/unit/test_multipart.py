"""Forms: read in one way or refused, and written so that any reader finds the same parts."""

from __future__ import annotations

import contextlib

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.errors import BodyTooLarge, GatewayError, MalformedBody, UnsupportedMedia
from gateway.protocols import multipart
from gateway.protocols.multipart import MOST_PARTS, MOST_TEXT_BYTES, FormPart
from tests.unit.operations.other_apis import read_form

B = b"limit"
_NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters='"\\'),
    min_size=1, max_size=20,
).filter(lambda name: name != "_charset_")  # fmt: skip
_CONTENT = st.one_of(
    st.binary(max_size=60),
    st.lists(
        st.sampled_from([b"\r\n", b"--", b"\n", b"\r", b"limit", b'"', b"content-type: a/b", b"x"]),
        max_size=12,
    ).map(b"".join),
)
_MEDIA_TYPES = st.sampled_from(["audio/mpeg", "image/png"])
_PARTS = st.lists(
    st.one_of(
        st.tuples(_NAMES, _CONTENT), st.tuples(_NAMES, _CONTENT, _NAMES, _MEDIA_TYPES)
    ).map(lambda fields: FormPart(*fields)),
    min_size=1, max_size=5, unique_by=lambda part: part.name,
)  # fmt: skip


@given(_PARTS)
def test_what_is_written_is_read_as_it_was(parts: list[FormPart]) -> None:
    media, pieces = multipart.encode(parts)
    assert multipart.parse(b"".join(pieces), multipart.boundary(media)) == parts


def test_another_reader_finds_the_same_parts() -> None:
    content = b"\r\n--limit\r\n\x00\xff--\r\n"
    parts = [
        FormPart("model", b"whisper-1"), FormPart("a[]", b"1"), FormPart("a[]", b"2"),
        FormPart("file", content, "morning 1.mp3", "audio/mpeg"),
    ]  # fmt: skip
    media, pieces = multipart.encode(parts)
    fields, files = read_form(media, b"".join(pieces))
    assert fields == {"model": "whisper-1", "a[]": ["1", "2"]}
    assert files == [("file", "morning 1.mp3", "audio/mpeg", content)]


def test_a_name_cannot_end_a_line() -> None:
    _, pieces = multipart.encode([FormPart("file", b"x", 'a"\r\nx: y.mp3')])
    assert b"".join(pieces).count(b"\r\n") == 6
    assert b'filename="a%22%0D%0Ax: y.mp3"' in pieces[0]


def test_what_clients_write_is_read() -> None:
    request = httpx.Request(
        "POST", "http://a", data={"model": "m"}, files={"file": ("Müller.mp3", b"x", "audio/mpeg")}
    )
    boundary = multipart.boundary(request.headers["content-type"])
    assert multipart.parse(request.read(), boundary) == [
        FormPart("model", b"m"), FormPart("file", b"x", "Müller.mp3", "audio/mpeg"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("disposition", "filename"),
    [
        ('name="f"; filename="a b.mp3"', "a b.mp3"),
        ("name=f; filename=a.mp3", "a.mp3"),
        ("name=f; filename=a.mp3; filename*=utf-8''%C3%A4.mp3", "ä.mp3"),
        ("name=\"f\"; filename*=UTF-8''a%22b", 'a"b'),
        ('name="f"; filename=""', ""),
    ],
)
def test_a_filename_has_its_forms(disposition: str, filename: str) -> None:
    (part,) = multipart.parse(form(f"content-disposition: form-data; {disposition}"), B)
    assert (part.name, part.filename) == ("f", filename)


def form(*heads: str, content: bytes = b"x") -> bytes:
    parts = [b"--%b\r\n%b\r\n\r\n%b\r\n" % (B, head.encode(), content) for head in heads]
    return b"".join(parts) + b"--%b--\r\n" % B


NAMED = 'content-disposition: form-data; name="a"'
FILE = f'{NAMED}; filename="a"'
GOOD = form(NAMED)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"a preamble\r\n" + GOOD,
        b"\r\n" + GOOD,
        GOOD + b"an epilogue",
        GOOD + GOOD,
        GOOD.replace(b"--limit--\r\n", b""),
        GOOD.replace(b"--limit\r\n", b"--limit \r\n"),
        GOOD.replace(b"\r\n", b"\n"),
        GOOD.replace(b"\r\n--limit--", b"\n--limit--"),
        form(NAMED, content=b"x\r\n--limit \r\ny"),
        form(NAMED, content=b"x\r\n--limitless"),
        form(NAMED, content=b"x\n--limit\ny"),
        form(NAMED, NAMED),
        form(FILE, NAMED),
        form(""),
        form("content-type: text/plain"),
        form(f"{NAMED}\r\n{NAMED}"),
        form(f"{NAMED}\r\ncontent-type: text/plain\r\nContent-Type: text/plain"),
        form(f"{NAMED};\r\n filename=b"),
        form(f"{NAMED}\ncontent-type: text/plain"),
        form(f'{NAMED}; name="b"'),
        form(f"{FILE}; filename=b"),
        form('content-disposition: attachment; name="a"'),
        form('content-disposition: form-data; name="a\\"b"'),
        form('content-disposition: form-data; name=""'),
        form('content-disposition: form-data; name="_charset_"', content=b"utf-16"),
        form(f"{NAMED}\r\ncontent-type: text/plain; charset=utf-16"),
        form(f"{NAMED}\r\ncontent-type: multipart/mixed; boundary=x"),
        form(f"{NAMED}\r\ncontent-transfer-encoding: base64"),
        form(f"{FILE}\r\ncontent-transfer-encoding: quoted-printable"),
        form(f"{FILE}\r\ncontent-type: audio"),
        form(f"{FILE}\r\ncontent-type: audio/mpeg; name=x"),
        form("content-disposition: form-data; name=f; filename*=utf-8''a%0Ab"),
        form("content-disposition: form-data; name=f; filename*=latin1''a"),
        form(NAMED + "\r\nx: " + "y" * 5000),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedBody) as refused:
        multipart.parse(body, B)
    assert "limit" not in str(refused.value)


def test_names_are_utf_8() -> None:
    with pytest.raises(MalformedBody):
        multipart.parse(GOOD.replace(b'"a"', b'"\xff"'), B)


def test_a_form_is_bounded() -> None:
    listed = 'content-disposition: form-data; name="a[]"'
    assert len(multipart.parse(form(*[listed] * MOST_PARTS), B)) == MOST_PARTS
    with pytest.raises(BodyTooLarge):
        multipart.parse(form(*[listed] * (MOST_PARTS + 1)), B)
    half = b"x" * (MOST_TEXT_BYTES // 2 + 1)
    with pytest.raises(BodyTooLarge):
        multipart.parse(form(listed, listed, content=half), B)
    assert len(multipart.parse(form(FILE, NAMED.replace('"a"', '"b"'), content=half), B)) == 2


@pytest.mark.parametrize(
    ("media", "boundary"),
    [
        ("multipart/form-data; boundary=a", b"a"),
        ('Multipart/Form-Data; boundary="a b"', b"a b"),
        ("multipart/form-data; boundary=----WebKitFormBoundaryAb1", b"----WebKitFormBoundaryAb1"),
        ("multipart/form-data; boundary=a; charset=utf-8", b"a"),
    ],
)
def test_a_boundary_is_read(media: str, boundary: bytes) -> None:
    assert multipart.boundary(media) == boundary


@pytest.mark.parametrize(
    "media",
    [
        "", "application/json", "multipart/form-data", "multipart/mixed; boundary=a",
        "multipart/form-data; boundary=", "multipart/form-data; boundary=a; boundary=b",
        "multipart/form-data; boundary=a, b", "multipart/form-data; boundary=" + "a" * 71,
        'multipart/form-data; boundary="a "', "multipart/form-data; boundary=a; charset=utf-16",
        "multipart/form-data; x=y; boundary=a",
    ],
)  # fmt: skip
def test_another_media_type_is_refused(media: str) -> None:
    with pytest.raises(UnsupportedMedia):
        multipart.boundary(media)


@given(st.binary(max_size=200))
def test_whatever_comes_is_read_or_refused(body: bytes) -> None:
    with contextlib.suppress(GatewayError):
        multipart.parse(b"--limit\r\n" + body, B)
