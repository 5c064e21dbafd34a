"""Pictures: read where they are flat and all that is in them is legible."""

from __future__ import annotations

import io
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

pytest.importorskip("rapidocr", reason="the extra documents")
pytest.importorskip("pypdfium2", reason="the extra documents")

from gateway.classify.text.documents import (
    EMBEDDED,
    FORMAT,
    LARGE,
    PICTURE,
    Room,
    Unread,
    reading,
)
from tests import made_documents as made

LINES = ("Discharge letter", "Patient: Maria Gonzalez", "SSN 536-22-8726", "Ward four, bed two")
NAME = "Maria Gonzalez"


def read_text(data: bytes, media_type: str = "image/png") -> str:
    room = Room(1 << 20)
    reading.read(data, media_type, room)
    return "\n".join(room.texts)


def refusal(data: bytes, media_type: str = "image/png", room: Room | None = None) -> str:
    with pytest.raises(Unread) as refused:
        reading.read(data, media_type, room or Room(1 << 20))
    return refused.value.reason


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_the_text_of_a_screenshot_is_read(kind: str) -> None:
    data = made.picture(*LINES, kind=kind)
    assert read_text(data, f"image/{kind.lower()}").split("\n") == list(LINES)


def test_the_text_of_a_scan_is_read() -> None:
    page = made.scanned(made.drawn(*LINES))
    assert NAME in read_text(made.encoded(page))
    assert NAME in read_text(made.pdf_with(page), made.PDF)


def test_text_across_the_borders_of_what_is_read_at_once_is_read() -> None:
    image = made.drawn(size=(2600, 400))
    image.paste(made.drawn(*LINES), (1750, 0))
    assert "536-22-8726" in read_text(made.encoded(image))


@pytest.mark.parametrize("side", [48, 96, 300])
def test_a_picture_with_something_shaded_is_not_read(side: int) -> None:
    image = made.drawn(*LINES)
    image.paste(made.shaded(side), (560, 20))
    assert refusal(made.encoded(image)) == PICTURE
    assert refusal(made.encoded(image, "JPEG", quality=85), "image/jpeg") == PICTURE


def test_a_large_face_is_shaded_where_all_of_its_parts_are_smooth() -> None:
    assert refusal(made.encoded(made.shaded(3000), "JPEG"), "image/jpeg") == PICTURE


@pytest.mark.parametrize("seed", range(4))
def test_a_page_with_a_signature_is_not_read(seed: int) -> None:
    page = made.signed(made.drawn(*LINES), seed=seed)
    assert refusal(made.encoded(page)) == PICTURE
    assert refusal(made.pdf_with(made.scanned(page, seed)), made.PDF) == PICTURE


def test_tables_bars_and_buttons_are_no_signatures() -> None:
    image = made.drawn("Revenue by region", "", "", "", "", "North   410")
    pen = ImageDraw.Draw(image)
    for at in range(5):
        pen.line((30, 100 + 30 * at, 400, 100 + 30 * at), fill="black", width=2)
        pen.line((30 + 90 * at, 100, 30 + 90 * at, 220), fill="black", width=2)
    pen.rectangle((0, 390, 899, 399), fill="steelblue")
    pen.rounded_rectangle((450, 240, 600, 280), 8, fill="navy")
    pen.text((480, 248), "Save all", fill="white", font=ImageFont.load_default(22))
    assert "Revenue by region" in read_text(made.encoded(image))


def test_illegible_print_is_not_read() -> None:
    page = made.drawn(*LINES, size=(600, 240)).resize((110, 44), Image.Resampling.LANCZOS)
    assert refusal(made.encoded(page)) == PICTURE


def test_what_a_picture_says_of_itself_is_read() -> None:
    image, comment = made.drawn("hello"), PngInfo()
    comment.add_text("Comment", NAME)
    comment.add_itxt("Title", "Ward four")
    assert NAME in read_text(made.encoded(image, pnginfo=comment))
    exif = Image.Exif()
    exif[0x013B] = NAME  # artist
    assert NAME in read_text(made.encoded(image, "JPEG", exif=exif), "image/jpeg")
    assert NAME in read_text(made.encoded(image, "JPEG", comment=NAME), "image/jpeg")


def test_a_picture_with_the_notes_of_a_camera_is_not_read() -> None:
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x927C] = b"secret"
    data = made.encoded(made.drawn("hello"), "JPEG", exif=exif)
    assert refusal(data, "image/jpeg") == PICTURE


def test_text_that_is_transparent_is_not_read_as_if_it_were_not_there() -> None:
    image = made.drawn(*LINES).convert("RGBA")
    image.putalpha(0)
    assert refusal(made.encoded(image)) == PICTURE


def test_an_animated_picture_is_not_read() -> None:
    frames = [made.drawn("one"), made.drawn("two")]
    data = made.encoded(frames[0], "PNG", save_all=True, append_images=frames[1:])
    assert refusal(data) == FORMAT


def test_a_segment_or_bytes_that_no_decoder_shows_are_not_read() -> None:
    data = made.picture("hello", kind="JPEG")
    note = b"\xff\xed\0\x12Photoshop 3.0\0xx"
    assert refusal(data[:2] + note + data[2:], "image/jpeg") == FORMAT
    assert refusal(data + b"hello", "image/jpeg") == FORMAT


def test_pictures_in_documents_are_read() -> None:
    page = made.drawn(*LINES)

    def change(document: Any) -> None:
        document.add_picture(io.BytesIO(made.encoded(page)))

    assert NAME in read_text(made.word("see below", change=change), made.WORD)
    assert NAME in read_text(made.pdf_with(made.drawn("hello"), page), made.PDF)


def _canvas_pdf(draw: Any) -> bytes:
    from reportlab.pdfgen.canvas import Canvas

    out = io.BytesIO()
    canvas = Canvas(out)
    canvas.drawString(72, 770, "Quarterly report")
    draw(canvas)
    canvas.save()
    return out.getvalue()


def test_a_page_with_curves_is_looked_at() -> None:
    def sign(canvas: Any) -> None:
        pen = canvas.beginPath()
        pen.moveTo(100, 300)
        for n in range(12):
            pen.curveTo(110 + 14 * n, 360, 120 + 14 * n, 250, 130 + 14 * n, 310)
        canvas.drawPath(pen)

    assert refusal(_canvas_pdf(sign), made.PDF) == PICTURE


def test_a_page_with_rules_and_boxes_is_read_by_its_characters() -> None:
    def rule(canvas: Any) -> None:
        canvas.line(72, 700, 300, 700)
        canvas.rect(72, 600, 200, 50, fill=1)

    assert "Quarterly report" in read_text(_canvas_pdf(rule), made.PDF)


def test_text_behind_a_black_box_is_read() -> None:
    def redact(canvas: Any) -> None:
        canvas.drawString(72, 700, NAME)
        canvas.rect(70, 690, 200, 30, fill=1)

    assert NAME in read_text(_canvas_pdf(redact), made.PDF)


def test_a_picture_that_no_page_shows_is_not_read() -> None:
    from pypdf import PdfReader, PdfWriter
    from pypdf.generic import DictionaryObject, NameObject, NumberObject, StreamObject

    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(made.pdf(["hello"]))))
    stream = StreamObject()
    stream.set_data(bytes(64))
    for key, value in {
        "/Type": NameObject("/XObject"), "/Subtype": NameObject("/Image"),
        "/Width": NumberObject(8), "/Height": NumberObject(8),
        "/ColorSpace": NameObject("/DeviceGray"), "/BitsPerComponent": NumberObject(8),
    }.items():  # fmt: skip
        stream[NameObject(key)] = value
    shelf = DictionaryObject({NameObject("/Im0"): writer._add_object(stream)})
    writer.root_object[NameObject("/XObject")] = shelf
    out = io.BytesIO()
    writer.write(out)
    assert refusal(out.getvalue(), made.PDF) == PICTURE


def test_more_pictures_than_may_be_decoded_are_not_read() -> None:
    data = made.picture("hello", size=(900, 400))
    assert refusal(data, room=Room(1 << 20, pixels=359_999)) == LARGE


def test_an_attachment_of_a_pdf_is_not_read() -> None:
    def embed(canvas: Any) -> None:
        canvas.setTitle("a")

    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(_canvas_pdf(embed))))
    writer.add_attachment("a.png", made.picture("hello"))
    out = io.BytesIO()
    writer.write(out)
    assert refusal(out.getvalue(), made.PDF) == EMBEDDED
