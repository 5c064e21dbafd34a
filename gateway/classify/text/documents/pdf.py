"""The text of a PDF (ISO 32000): of its pages, and every string of every object.

A stream is read only where it is known what it holds; a page is rendered, and its picture read,
where it has marks that are not characters, rules or boxes, or characters of unknown meaning.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import re
from collections.abc import Iterator
from typing import Any

import pypdf
import pypdfium2
import pypdfium2.raw as pdfium
from pypdf.generic import (
    ArrayObject,
    ByteStringObject,
    DictionaryObject,
    IndirectObject,
    StreamObject,
    TextStringObject,
)

from gateway.classify.text.documents import (
    EMBEDDED,
    ENCRYPTED,
    FORMAT,
    LARGE,
    MOST_PIXELS,
    PICTURE,
    Room,
    Unread,
    pictures,
)
from gateway.classify.text.documents.office_xml import Shared, read_part

_END = b"%%EOF"
_LINEARIZED = re.compile(rb"/Linearized\b")
_FAMILIES = frozenset(
    {"/XObject", "/ColorSpace", "/Pattern", "/Shading", "/CharProcs", "/N", "/D", "/R"}
)
"""Keys of dictionaries whose own keys are names: what stands there is of the family."""
_STREAMS = _FAMILIES.union(
    (  # noqa: SIM905 - four lines instead of thirty
        "/Contents /ToUnicode /FontFile /FontFile2 /FontFile3 /CIDToGIDMap /CIDSet /Encoding "
        "/UseCMap /CS /Alternate /SMask /Mask /Thumb /Function /Functions /TR /TR2 /BG /BG2 /UCR "
        "/UCR2 /HT /G /DestOutputProfile /Metadata"
    ).split()
)
"""Under these a stream is drawn, or says how to draw."""
_ANNOTATIONS = frozenset(
    (  # noqa: SIM905 - two lines instead of fifteen
        "/Link /Text /FreeText /Highlight /Underline /Squiggly /StrikeOut /Popup /Widget /Square "
        "/Circle /Line /Caret /Polygon /PolyLine"
    ).split()
)
"""Kinds whose words are strings."""
_EMBEDDED = frozenset({"/JS", "/XFA", "/EmbeddedFile", "/EF", "/Sound", "/Movie", "/ByteRange"})
"""Keys of scripts, forms of another format, files, and signatures with their certificates."""
_TABLES = frozenset({"/ObjStm", "/XRef"})
_UNPRINTED = "/ID"  # digests of the file
_DATE = re.compile(r"D:\d{4,14}(?:Z|[+-]\d\d'?(?:\d\d'?)?)?")
_MOST_VALUES = 500_000
_SCALE = 2.0  # of a rendered page: 144 dots an inch
_STRAIGHT = 0.01  # points by which a rule may lean


def read(data: bytes, room: Room) -> None:
    """Raises Unread, and what pypdf and PDFium raise at a broken file."""
    ends = 1 + (_LINEARIZED.search(data, 0, 1024) is not None)
    if data.count(_END) != ends or data[data.rindex(_END) + len(_END) :].strip():
        raise Unread(FORMAT)  # guard: K3.revisions
    reader = pypdf.PdfReader(io.BytesIO(data), strict=True)
    if reader.is_encrypted:
        raise Unread(ENCRYPTED)
    _Objects(reader, room).read()
    with pypdfium2.PdfDocument(data) as document:
        if len(document) != len(reader.pages):
            raise Unread(FORMAT)
        for page in document:
            room.page()
            _read_page(page, room)


class _Objects:
    """Every object of a file: those that its trailer leads to, and those that nothing leads to."""

    def __init__(self, reader: pypdf.PdfReader, room: Room) -> None:
        self._reader = reader
        self._room = room
        self._done: set[tuple[int, int]] = set()
        self._values = _MOST_VALUES
        self._strings: dict[str, None] = {}
        self._images: set[tuple[int, int]] = set()

    def read(self) -> None:
        self._walk("", self._reader.trailer)
        for place in list(self._stored()):
            self._walk("", IndirectObject(*place, self._reader))
        self._room.text("\n".join(self._strings))
        self._read_images()

    def _stored(self) -> Iterator[tuple[int, int]]:
        for generation, objects in self._reader.xref.items():
            yield from ((number, generation) for number in objects)
        yield from ((number, 0) for number in self._reader.xref_objStm)

    def _walk(self, key: str, root: Any) -> None:
        todo: list[tuple[str, Any, tuple[int, int]]] = [(key, root, (0, 0))]
        while todo:
            key, value, place = todo.pop()
            self._values -= 1
            if self._values < 0:
                raise Unread(LARGE)
            if isinstance(value, IndirectObject):
                place = (value.idnum, value.generation)
                if place in self._done:
                    continue
                self._done.add(place)
                value = self._reader.get_object(value)
            if isinstance(value, DictionaryObject):
                self._check(value)
                if isinstance(value, StreamObject):
                    self._stream(key, value, place)
                    key = ""
                for name, item in dict.items(value):
                    todo.append((key if key in _FAMILIES else name, item, place))
            elif isinstance(value, ArrayObject):
                todo += [(key, item, place) for item in list.__reversed__(value)]
            elif isinstance(value, TextStringObject | ByteStringObject) and key != _UNPRINTED:
                self._string(value)

    def _string(self, value: str | bytes) -> None:
        text = value if isinstance(value, str) else value.decode("latin-1")
        if _DATE.fullmatch(text) is None:
            self._strings[text] = None

    def _check(self, value: DictionaryObject) -> None:
        if not _EMBEDDED.isdisjoint(value):  # guard: K3.embedded
            raise Unread(EMBEDDED)
        kind = value.get("/Subtype")
        if (value.get("/Type") == "/Annot" or "/Rect" in value) and kind not in _ANNOTATIONS:
            raise Unread(EMBEDDED)  # guard: K3.annotations

    def _stream(self, key: str, stream: StreamObject, place: tuple[int, int]) -> None:
        kind = stream.get("/Type")
        if kind in _TABLES:
            return
        if key not in _STREAMS or kind == "/EmbeddedFile":  # guard: K3.streams
            raise Unread(EMBEDDED)
        if stream.get("/Subtype") == "/Image" or "/ImageMask" in stream:
            self._room.picture(int(stream["/Width"]), int(stream["/Height"]))
            if key not in ("/SMask", "/Mask"):
                self._images.add(place)
        elif kind == "/Metadata" or key == "/Metadata":
            packet = stream.get_data()
            self._room.unpack(len(packet))
            read_part("docProps/packet.xml", packet, Shared(), self._room)

    def _read_images(self) -> None:
        """Those that pages have, shown or not; a picture anywhere else is not read."""
        for page in self._reader.pages:
            for image in page.images:
                reference = image.indirect_reference
                if reference is not None:
                    place = (reference.idnum, reference.generation)
                    if place not in self._images:
                        continue
                    self._images.discard(place)
                if image.image is None:
                    raise Unread(PICTURE)
                pictures.examine(image.image, self._room)
        if self._images:  # guard: K3.pictures
            raise Unread(PICTURE)


def _read_page(page: pypdfium2.PdfPage, room: Room) -> None:
    with contextlib.closing(page.get_textpage()) as text:
        count = text.count_chars()
        room.text(text.get_text_range())
        unknown = any(pdfium.FPDFText_HasUnicodeMapError(text, at) == 1 for at in range(count))
    if unknown or _is_drawn(page):  # guard: K3.drawn
        width, height = page.get_size()
        scale = min(_SCALE, (MOST_PIXELS / max(1.0, width * height)) ** 0.5)
        room.picture(int(width * scale), int(height * scale))
        pictures.examine(page.render(scale=scale).to_pil(), room)


def _is_drawn(page: pypdfium2.PdfPage) -> bool:
    """Whether it has marks that are not characters, one picture, rules or boxes."""
    placed = 0
    for mark in page.get_objects(max_depth=15):
        if mark.type == pdfium.FPDF_PAGEOBJ_IMAGE:
            placed += 1
        elif mark.type == pdfium.FPDF_PAGEOBJ_PATH:
            if not _is_straight(mark):
                return True
        elif mark.type not in (pdfium.FPDF_PAGEOBJ_TEXT, pdfium.FPDF_PAGEOBJ_FORM):
            return True
    return placed > 1


def _is_straight(path: pypdfium2.PdfObject) -> bool:
    """Whether each of its lines goes along or across."""
    x, y = ctypes.c_float(), ctypes.c_float()
    before: tuple[float, float] | None = None
    for at in range(pdfium.FPDFPath_CountSegments(path)):
        segment = pdfium.FPDFPath_GetPathSegment(path, at)
        kind = pdfium.FPDFPathSegment_GetType(segment)
        pdfium.FPDFPathSegment_GetPoint(segment, x, y)
        if kind not in (pdfium.FPDF_SEGMENT_LINETO, pdfium.FPDF_SEGMENT_MOVETO):
            return False
        point = (x.value, y.value)
        if kind == pdfium.FPDF_SEGMENT_MOVETO or before is None:
            before = point
        if min(abs(point[0] - before[0]), abs(point[1] - before[1])) > _STRAIGHT:
            return False
        before = point
    return True
