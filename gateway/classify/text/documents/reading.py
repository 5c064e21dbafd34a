"""The format of a document, and the reader of that format."""

from __future__ import annotations

from gateway.classify.text.documents import (
    EMBEDDED,
    FORMAT,
    LARGE,
    MOST_BYTES,
    PDF,
    Room,
    Unread,
    mail,
    markup,
    office,
    pdf,
    pictures,
)

_OFFICE = "application/vnd.openxmlformats-officedocument."
_ZIP, _TEXT = "zip", "text"
_MAGIC = (
    (b"%PDF-", PDF),
    (b"PK\x03\x04", _ZIP),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
)
_TEXTS = frozenset(
    {"application/json", "application/xml", "application/x-yaml", "application/yaml"}
    | {"application/x-ndjson", "application/jsonl", "application/sql", "message/rfc822"}
)
_OTHERS = ("{\\rtf", "%!PS", "\x1f\x8b", "MIME-Version:", "From ")
"""What text can begin with that a reader of another format would decode."""
_ALIASES = {"image/jpg": "image/jpeg", "application/xhtml+xml": "text/html"}


def read(data: bytes, media_type: str, room: Room) -> None:
    """All that a document says, into `room`. Raises Unread, and whatever a library raises at bytes
    that it was not made for."""
    if len(data) > MOST_BYTES:  # guard: K1.size-cap
        raise Unread(LARGE)
    if room.depth <= 0:  # guard: K1.depth
        raise Unread(EMBEDDED)
    room.depth -= 1
    kind = next((kind for magic, kind in _MAGIC if data.startswith(magic)), _TEXT)
    _check(kind, _ALIASES.get(media_type, media_type))
    if kind == PDF:
        pdf.read(data, room)
    elif kind == _ZIP:
        office.read(data, room, read)
    elif kind != _TEXT:
        pictures.read(data, kind, room)
    else:
        _read_text(data, media_type, room)
    room.depth += 1


def _check(kind: str, media_type: str) -> None:
    """Whoever gets the document may go by its media type."""
    if kind == _TEXT:
        fits = media_type.startswith("text/") or media_type in _TEXTS
    elif kind == _ZIP:
        fits = media_type.startswith(_OFFICE)
    else:
        fits = media_type == kind
    if not fits:  # guard: K2.media-type
        raise Unread(FORMAT)


def _read_text(data: bytes, media_type: str, room: Room) -> None:
    if media_type == "message/rfc822":
        mail.read(data, room, read)
        return
    text = decoded(data)
    if text.lstrip("\ufeff \t\r\n").startswith(_OTHERS):
        raise Unread(FORMAT)
    if media_type in ("text/html", "application/xhtml+xml"):
        markup.read(text, room)
    room.text(text)


def decoded(data: bytes) -> str:
    """UTF-8, or UTF-16 that says so. Raises Unread where it is no text."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise Unread(FORMAT) from None
    if any(c < " " and c not in "\t\n\r\f\x1b" for c in set(text)):  # guard: K2.binary
        raise Unread(FORMAT)
    return text
