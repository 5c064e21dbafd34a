"""The parts of a DOCX, XLSX or PPTX file (ECMA-376): every XML part, and the pictures.

All parts are read whether a page shows them or not: hidden sheets, comments, notes, headers,
tracked changes as they were and as they are, alternative texts, targets of links, properties.
"""

from __future__ import annotations

import io
import posixpath
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator

from gateway.classify.text.documents import (
    EMBEDDED,
    ENCRYPTED,
    FORMAT,
    LARGE,
    PICTURE,
    Room,
    Unread,
)
from gateway.classify.text.documents.office_xml import Shared, read_part

Read = Callable[[bytes, str, Room], None]

_TYPES = "[Content_Types].xml"
_MOST_ENTRIES = 4096
_MOST_EXTRA = 36  # bytes of an entry's extra field: times and sizes
_DESCRIPTOR = 24  # bytes of a data descriptor, at most
_END = struct.Struct("<4s8xLL2x")
_LOCAL, _LOCAL_BYTES = struct.Struct("<26xHH"), 30
_OFFICE = "application/vnd.openxmlformats-officedocument."
_XML = frozenset({".xml", ".rels", ".vml"})
_PICTURES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif"}
_DRAWN = frozenset({".emf", ".wmf", ".svg", ".tif", ".tiff", ".bmp", ".wdp", ".webp"})
_PACKAGES = {
    ".docx": f"{_OFFICE}wordprocessingml.document",
    ".xlsx": f"{_OFFICE}spreadsheetml.sheet",
    ".pptx": f"{_OFFICE}presentationml.presentation",
}


def read(data: bytes, room: Room, read_document: Read) -> None:
    """`read_document`: reads a picture or a document in this one. Raises Unread."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            room.text(archive.comment.decode("utf-8", "replace"))
            parts = dict(_entries(archive, data, room))
    except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error):
        raise Unread(FORMAT) from None
    if _TYPES not in parts:
        raise Unread(FORMAT)
    shared = Shared()
    for name in sorted(parts, key=lambda name: (not name.endswith("sharedStrings.xml"), name)):
        extension = f".{name.rpartition('.')[2].lower()}"
        if extension in _XML:
            read_part(name, parts[name], shared, room)
        elif extension in _PICTURES:
            read_document(parts[name], _PICTURES[extension], room)
        elif extension in _PACKAGES and "/embeddings/" in name:
            read_document(parts[name], _PACKAGES[extension], room)
        elif "/printerSettings/" in name:
            _strings(parts[name], room)
        elif extension in _DRAWN:
            raise Unread(PICTURE)
        else:
            raise Unread(EMBEDDED)  # guard: K2.office-embedded


def _entries(archive: zipfile.ZipFile, data: bytes, room: Room) -> Iterator[tuple[str, bytes]]:
    entries = sorted(archive.infolist(), key=lambda entry: entry.header_offset)
    if len(entries) > _MOST_ENTRIES:
        raise Unread(LARGE)
    if len({entry.filename for entry in entries}) < len(entries):  # guard: K2.zip-duplicates
        raise Unread(FORMAT)
    _check_layout(entries, data, archive)
    for entry in entries:
        if entry.flag_bits & 1:
            raise Unread(ENCRYPTED)
        room.text(entry.comment.decode("utf-8", "replace"))
        room.text(posixpath.basename(entry.filename) if " " in entry.filename else "")
        with archive.open(entry) as packed:
            content = packed.read(room.octets + 1)
        room.unpack(len(content))
        if not entry.is_dir():
            yield entry.filename, content


def _check_layout(entries: list[zipfile.ZipInfo], data: bytes, archive: zipfile.ZipFile) -> None:
    """Every byte is an entry's: none before, between, behind or in the extra fields says anything,
    and no two entries share theirs."""
    at, end = 0, archive.start_dir
    last = len(data) - _END.size - len(archive.comment)
    # guard: K2.zip-end
    if last < 0 or _END.unpack_from(data, last) != (b"PK\5\6", last - end, end):
        raise Unread(FORMAT)
    for entry in entries:
        start = entry.header_offset
        # guard: K2.zip-layout
        if not at <= start <= at + _DESCRIPTOR or start + _LOCAL_BYTES > end:
            raise Unread(FORMAT)
        name, extra = _LOCAL.unpack_from(data, start)
        if (
            len(entry.extra) > _MOST_EXTRA
            or len(data[start + _LOCAL_BYTES + name :][:extra].rstrip(b"\0")) > _MOST_EXTRA
        ):
            raise Unread(FORMAT)
        at = start + _LOCAL_BYTES + name + extra + entry.compress_size
    if not at <= end <= at + _DESCRIPTOR:
        raise Unread(FORMAT)


def _strings(data: bytes, room: Room) -> None:
    """What a printer's settings say, in UTF-16 or in ASCII."""
    for encoding in ("utf-16-le", "latin-1"):
        text = data.decode(encoding, "replace")
        words = "".join(c if c.isprintable() and c.isascii() else "\n" for c in text).split("\n")
        room.text("\n".join(word for word in words if len(word) > 3))
