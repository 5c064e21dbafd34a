"""Forms (`multipart/form-data`, RFC 7578) without their ambiguities, so that what was scanned is
what is sent.

Two readers must find the same parts in a body. So there is nothing before the first boundary and
behind the last; within a part the boundary does not stand at all; a line ends by CRLF; a header
stands once, on one line; a name has one spelling; a text is UTF-8 whatever else a part may state;
and a name that stands twice says that it is a list (`image[]`). Everything else is refused. What is
read is written anew: no byte of a part's head goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from gateway.core import ambient
from gateway.core.errors import BodyTooLarge, MalformedBody, UnsupportedMedia

FORM: Final = "multipart/form-data"
MOST_PARTS: Final = 128
MOST_HEAD_BYTES: Final = 4096  # of a part
MOST_TEXT_BYTES: Final = 1024 * 1024  # of all parts but files

_BOUNDARY: Final = re.compile(
    r"""multipart/form-data[ \t]*;[ \t]*boundary=
    (?:"([0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?])"|([0-9A-Za-z'+_\-.]{1,70}))
    (?:[ \t]*;[ \t]*charset="?utf-8"?)?[ \t]*""",
    re.IGNORECASE | re.VERBOSE,
)
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
_VALUE: Final = rb'(?:"([^"\\]*)"|([!#$%&\'*+.^_`|~0-9A-Za-z-]+))'
_DISPOSITION: Final = re.compile(
    rb"form-data;[ \t]*name=%b(?:;[ \t]*filename=%b)?"
    rb"(?:;[ \t]*filename\*=utf-8''([!#$&+.^_`|~%%0-9A-Za-z-]+))?" % (_VALUE, _VALUE),
    re.IGNORECASE,
)
_MEDIA_TYPE: Final = re.compile(r"[\w.+-]{1,64}/[\w.+-]{1,64}(?:; ?codecs?=[\w.,+-]{1,64})?", re.A)
_TEXT_TYPE: Final = re.compile(
    r'(?:text/plain|application/json)(?:;[ \t]*charset="?utf-?8"?)?', re.IGNORECASE
)
_PLAIN_ENCODINGS: Final = frozenset({"7bit", "8bit", "binary"})
_CONTROL: Final = re.compile("[\0-\x1f\x7f]")
_UNKNOWN_TYPE: Final = "application/octet-stream"


class FormPart(NamedTuple):
    """One field of a form. `filename`: None for a text."""

    name: str
    content: bytes
    filename: str | None = None
    media_type: str = _UNKNOWN_TYPE


def boundary(content_type: str) -> bytes:
    """What separates the parts, by the header of the body. Raises UnsupportedMedia."""
    match = _BOUNDARY.fullmatch(content_type)
    if match is None:
        raise UnsupportedMedia(f"content-type: send the body as {FORM} with a boundary")
    return (match[1] or match[2]).encode("ascii")


def parse(body: bytes, boundary: bytes) -> list[FormPart]:
    """Raises MalformedBody, BodyTooLarge; no message has a part's name or content."""
    first, between = b"--%b\r\n" % boundary, b"\r\n--%b" % boundary
    if not body.startswith(first):
        raise MalformedBody("the form does not begin with its boundary")
    parts: list[FormPart] = []
    text_bytes, names = 0, set[str]()
    at = len(first)
    while True:
        end = body.find(between, at)
        if end < 0:
            raise MalformedBody("the form has no last boundary")
        if len(parts) == MOST_PARTS:  # guard: S17.form-parts
            raise BodyTooLarge(f"the form has more than {MOST_PARTS} parts")
        part = _part(body, at, end, len(parts))
        if boundary in part.content:  # guard: S17.inner-boundary
            raise _malformed(len(parts), "has the boundary within it")
        if part.filename is None:
            text_bytes += len(part.content)
            if text_bytes > MOST_TEXT_BYTES:  # guard: S17.form-text
                raise BodyTooLarge(f"the form has more than {MOST_TEXT_BYTES} bytes of text")
        if part.name in names and not part.name.endswith("[]"):  # guard: S17.form-names
            raise _malformed(len(parts), "has a name that another part has")
        names.add(part.name)
        parts.append(part)
        at = end + len(between)
        if body.startswith(b"--", at):
            if body[at + 2 :] not in (b"", b"\r\n"):  # guard: S17.form-epilogue
                raise MalformedBody("the form goes on behind its last boundary")
            return parts
        if not body.startswith(b"\r\n", at):
            raise MalformedBody("a boundary of the form is no line of its own")
        at += 2


def _part(body: bytes, at: int, end: int, number: int) -> FormPart:
    bound = min(end, at + MOST_HEAD_BYTES)
    stop = body.find(b"\r\n\r\n", at, bound)
    if stop < 0:
        raise _malformed(number, f"has no head, or one of over {MOST_HEAD_BYTES} bytes")
    headers = _headers(body[at:stop], number)
    named = _DISPOSITION.fullmatch(headers.get(b"content-disposition", b""))
    if named is None:
        raise _malformed(number, 'needs Content-Disposition: form-data; name="..." and no more')
    coding = headers.get(b"content-transfer-encoding", b"binary").decode("latin-1").lower()
    if coding not in _PLAIN_ENCODINGS:  # guard: S17.form-encoding
        raise _malformed(number, "is encoded; send the bytes themselves")
    quoted, token, quoted_file, token_file, extended = named.groups()
    name, content = _name(quoted or token or b"", number), body[stop + 4 : end]
    if name in ("", "_charset_"):  # guard: S17.form-charset
        raise _malformed(number, "has no name, or one that changes how others are read")
    media = headers.get(b"content-type", b"").decode("latin-1")
    filename = quoted_file if token_file is None else token_file
    if extended is not None:
        filename = unquote_to_bytes(extended)
    if filename is None:
        if media and not _TEXT_TYPE.fullmatch(media):  # guard: S17.form-charset
            raise _malformed(number, "is a text of another type than text/plain in UTF-8")
        return FormPart(name, content)
    if media and not _MEDIA_TYPE.fullmatch(media):
        raise _malformed(number, "has a Content-Type that is none")
    return FormPart(name, content, _name(filename, number), media or _UNKNOWN_TYPE)


def _headers(head: bytes, number: int) -> Mapping[bytes, bytes]:
    """Those of a part, by their names in lower case. What they mean beyond the three that count,
    RFC 7578 has readers ignore."""
    headers: dict[bytes, bytes] = {}
    for line in head.split(b"\r\n"):
        match = _HEADER.fullmatch(line)
        if match is None:
            raise _malformed(number, "has a header that is none, or that goes on in the next line")
        name = match[1].lower()
        if name in headers:  # guard: S17.part-header
            raise _malformed(number, "has a header twice")
        headers[name] = match[2].rstrip(b" \t")
    return headers


def _name(raw: bytes, number: int) -> str:
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _malformed(number, "has a name that is not UTF-8") from None
    if _CONTROL.search(name):
        raise _malformed(number, "has a name with a control character")
    return name


def _malformed(number: int, what: str) -> MalformedBody:
    return MalformedBody(f"part {number + 1} of the form {what}")


def encode(parts: Iterable[FormPart]) -> tuple[str, tuple[bytes, ...]]:
    """The `content-type` and the body of a form, in pieces of which none is a copy of a file."""
    boundary = f"spillway-{ambient.random_hex(16)}"
    pieces = tuple(_pieces(parts, boundary.encode()))
    return f"{FORM}; boundary={boundary}", pieces


def _pieces(parts: Iterable[FormPart], boundary: bytes) -> Iterator[bytes]:
    separator = b"--%b\r\n" % boundary
    for part in parts:
        head = b'content-disposition: form-data; name="%b"' % _escaped(part.name)
        if part.filename is not None:
            media = part.media_type.encode()
            head += b'; filename="%b"\r\ncontent-type: %b' % (_escaped(part.filename), media)
        yield b"%b%b\r\n\r\n" % (separator, head)
        yield part.content
        separator = b"\r\n--%b\r\n" % boundary
    yield b"\r\n--%b--\r\n" % boundary


def _escaped(name: str) -> bytes:
    """As browsers write it (HTML, form submission)."""
    text = name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    return text.encode()
