"""Pictures: what they say of themselves, and the text in them.

A picture is read where it is flat (a screenshot, a diagram, a scan of print) and all marks in it
are legible text, rules, boxes or small signs. No face is looked for: whatever is shaded, as
photographs are, or drawn freely, as signatures and handwriting are, has not been read.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from gateway.classify.text.documents import FORMAT, LARGE, PICTURE, Room, Unread, ocr

Pixels = NDArray[np.uint8]

_FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP"}
_PNG_CHUNKS = frozenset(
    b"IHDR PLTE IDAT IEND tRNS gAMA cHRM sRGB iCCP sBIT bKGD hIST pHYs tIME tEXt zTXt iTXt eXIf "
    b"cICP".split()
)
_WEBP_CHUNKS = frozenset((b"VP8 ", b"VP8L", b"VP8X", b"ALPH", b"ICCP", b"EXIF", b"XMP "))
_JPEG_SEGMENTS = {0xE0: (b"JFIF\0",), 0xE1: (b"Exif\0\0", b"http://ns.adobe.com/xap/1.0/\0"),
                  0xE2: (b"ICC_PROFILE\0",), 0xEE: (b"Adobe",)}  # fmt: skip
_SCAN, _END, _COMMENT = 0xDA, 0xD9, 0xFE
_MAKER_NOTE = 0x927C  # of a camera, in a form of its maker's
_IFDS = (0x8769, 0x8825, 0xA005)  # Exif, GPS, interoperability
_LEAST_SIDE = 8  # pixels: no letter is legible in a smaller picture
_TILE = 16
_NEAR = 8  # levels of brightness by which the noise of a scan or of JPEG strays
_FLAT_SHARE = 0.75  # of a tile that has two colours
_MOST_SHADED = 2  # tiles: a face of 48 pixels has four and more
_SIDES = (512, 256, 128)  # pixels: parts of a large face are smooth until it is small
_GROUND = 31  # pixels around a mark, whose median is what is behind it
_MARK = 40  # levels between a mark and what is behind it
_SIGN = (48, 16)  # pixels across and down: a larger mark is no icon, and could be a signature
_ICON = 24  # pixels of a side: what is smaller may be an icon
_SOLID = 0.7  # of the box around a mark that is a box itself
_FRAME = 0.85  # of a mark that is rules along and across
_RULE = 6  # pixels across a rule


def read(data: bytes, media_type: str, room: Room) -> None:
    """A picture file. Raises Unread."""
    kind = _FORMATS.get(media_type)
    if kind is None:
        raise Unread(FORMAT)
    walk = {"PNG": _walk_png, "JPEG": _walk_jpeg, "WEBP": _walk_webp}[kind]
    for comment in walk(data):
        room.text(comment)
    try:
        with Image.open(io.BytesIO(data), formats=[kind]) as picture:
            room.picture(*picture.size)
            if getattr(picture, "n_frames", 1) != 1:
                raise Unread(FORMAT)
            picture.load()
            _read_metadata(picture, room)
            examine(picture, room)
    except Image.DecompressionBombError:
        raise Unread(LARGE) from None
    except (UnidentifiedImageError, OSError, SyntaxError, struct.error):
        raise Unread(FORMAT) from None


def _walk_png(data: bytes) -> Iterator[str]:
    """Raises Unread at a chunk that is not known, and at bytes after the last."""
    at, kind = 8, b""
    while at + 12 <= len(data) and kind != b"IEND":
        length, kind = struct.unpack_from(">I4s", data, at)
        if kind not in _PNG_CHUNKS:  # guard: K4.png-chunks
            raise Unread(FORMAT)
        at += 12 + length
    if at != len(data) or kind != b"IEND":  # guard: K4.png-end
        raise Unread(FORMAT)
    yield from ()


def _walk_jpeg(data: bytes) -> Iterator[str]:
    """Comments. Raises Unread at a segment that is not known, and at bytes after the end."""
    at = 2
    while True:
        marker, length = struct.unpack_from(">xBH", data, at)
        body = data[at + 4 : at + 2 + length]
        if data[at] != 0xFF or length < 2:
            raise Unread(FORMAT)
        known = _JPEG_SEGMENTS.get(marker)
        if 0xE0 <= marker <= 0xEF and not body.startswith(known or (b"\xff\xff",)):
            raise Unread(FORMAT)  # guard: K4.jpeg-segments
        if marker == _COMMENT:
            yield body.decode("utf-8", "replace")
        at += 2 + length
        if marker == _SCAN:
            at = _after_scan(data, at)
            if data[at + 1] == _END:
                break
    if data[at + 2 :].strip(b"\0"):
        raise Unread(FORMAT)


def _after_scan(data: bytes, at: int) -> int:
    """Where the next marker stands. Raises Unread."""
    while (at := data.find(b"\xff", at)) >= 0 and at + 1 < len(data):
        if data[at + 1] and not 0xD0 <= data[at + 1] <= 0xD7:
            return at
        at += 2
    raise Unread(FORMAT)


def _walk_webp(data: bytes) -> Iterator[str]:
    at = 12
    if (
        len(data) < at
        or data[8:at] != b"WEBP"
        or struct.unpack_from("<I", data, 4)[0] != len(data) - 8
    ):
        raise Unread(FORMAT)
    while at + 8 <= len(data):
        kind, length = struct.unpack_from("<4sI", data, at)
        if kind not in _WEBP_CHUNKS:
            raise Unread(FORMAT)
        at += 8 + length + length % 2
    if at != len(data):
        raise Unread(FORMAT)
    yield from ()


def _read_metadata(picture: Image.Image, room: Room) -> None:
    exif = picture.getexif()
    tags: dict[int, Any] = dict(exif)
    for ifd in _IFDS:
        tags |= exif.get_ifd(ifd)
    if _MAKER_NOTE in tags:
        raise Unread(PICTURE)
    values = [*picture.info.values(), *tags.values()]
    for value in values:
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace") if len(value) < 65_536 else ""
        if isinstance(value, str):
            room.text("".join(c if c.isprintable() else "\n" for c in value))


def examine(picture: Image.Image, room: Room) -> None:
    """The text in a picture that is decoded. Raises Unread unless all of it has been read."""
    if min(picture.size) < _LEAST_SIDE:
        return
    colours = _flattened(picture)
    text = ocr.read(colours)
    rest = _without(colours, text.boxes)
    if _is_shaded(rest):  # guard: K4.shaded
        raise Unread(PICTURE)
    if _is_drawn(rest):  # guard: K4.drawn
        raise Unread(PICTURE)
    if any(np.ptp(box, axis=0).max() > _ICON for box in text.doubtful):  # guard: K4.legible
        raise Unread(PICTURE)
    room.text("\n".join(text.lines))


def _flattened(picture: Image.Image) -> Pixels:
    """On white. Raises Unread where something is hidden in what is transparent."""
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        whole = picture.convert("RGBA")
        pixels = np.asarray(whole)
        unseen = pixels[pixels[:, :, 3] < 128][:, :3]
        if len(unseen) and np.any(np.ptp(unseen, axis=0) > _MARK):  # guard: K4.transparent
            raise Unread(PICTURE)
        ground = Image.new("RGBA", whole.size, "white")
        return np.asarray(Image.alpha_composite(ground, whole).convert("RGB"))
    if picture.mode.startswith(("I", "F")):
        raise Unread(FORMAT)
    return np.asarray(picture.convert("RGB"))


def _without(colours: Pixels, boxes: list[ocr.Box]) -> Pixels:
    """Brightness, with the ground around it in the place of each text."""
    grey: Pixels = cv2.cvtColor(colours, cv2.COLOR_RGB2GRAY)
    for box in boxes:
        corners = np.round(box).astype(np.int32)
        mask = np.zeros_like(grey)
        cv2.fillPoly(mask, [corners], 255)
        mask = cv2.dilate(mask, np.ones((7, 7), np.uint8))
        inside = grey[mask > 0]
        grey[mask > 0] = np.bincount(inside).argmax() if len(inside) else 255
    return grey


def _is_shaded(grey: Pixels) -> bool:
    """Whether more tiles than a small face has hold more than two colours, at any size."""
    sizes = [grey]
    for side in _SIDES:
        scale = side / max(grey.shape)
        if scale < 1:
            small = cv2.resize(grey, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
            sizes.append(np.asarray(small, np.uint8))
    return any(shaded_tiles(size) > _MOST_SHADED for size in sizes)


def shaded_tiles(grey: Pixels) -> int:
    """Tiles of which the two commonest colours are less than most."""
    rows, columns = grey.shape[0] // _TILE, grey.shape[1] // _TILE
    if not rows or not columns:
        return 0
    tiles = grey[: rows * _TILE, : columns * _TILE].reshape(rows, _TILE, columns, _TILE)
    tiles = tiles.transpose(0, 2, 1, 3).reshape(rows * columns, _TILE * _TILE)
    first, rest = _commonest(tiles, np.ones(tiles.shape, bool))
    second, _ = _commonest(tiles, rest)
    return int(np.count_nonzero((first + second) < _FLAT_SHARE * _TILE * _TILE))


def _commonest(tiles: Pixels, left: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """How many of the pixels that are left are of the colour that most have, and which are not."""
    levels = np.arange(0, 256, 8)
    near = np.zeros((len(tiles), len(levels)), np.int32)
    for at, level in enumerate(levels):
        near[:, at] = np.count_nonzero(
            (np.abs(tiles.astype(np.int16) - level) <= _NEAR) & left, axis=1
        )
    best = levels[near.argmax(axis=1)]
    return near.max(axis=1), left & (np.abs(tiles.astype(np.int16) - best[:, None]) > _NEAR)


def _is_drawn(grey: Pixels) -> bool:
    """Whether a mark is left that is no rule, no box and no icon."""
    return next(drawn_marks(grey), None) is not None


def drawn_marks(grey: Pixels) -> Iterator[tuple[int, int, int, int]]:
    """Marks that could be a signature: left, top, width and height."""
    ground = np.full_like(grey, np.median(grey))
    if min(grey.shape) > _GROUND:
        ground = cv2.medianBlur(grey, _GROUND)
    ink = (cv2.absdiff(grey, ground) > _MARK).astype(np.uint8)
    ink = cv2.morphologyEx(ink, cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
    count, _, marks, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    for left, top, width, height, area in marks[1:count]:
        if width < _SIGN[0] or height < _SIGN[1]:
            continue
        if min(width, height) <= _RULE or area >= _SOLID * width * height:
            continue
        if not _is_frame(ink[top : top + height, left : left + width]):
            yield int(left), int(top), int(width), int(height)


def _is_frame(mark: Pixels) -> bool:
    """Whether all of it is rules along and across, as the lines of a table are."""
    across = cv2.morphologyEx(mark, cv2.MORPH_OPEN, np.ones((1, 24), np.uint8))
    along = cv2.morphologyEx(mark, cv2.MORPH_OPEN, np.ones((24, 1), np.uint8))
    straight = np.count_nonzero(across | along)
    return bool(straight >= _FRAME * np.count_nonzero(mark))
