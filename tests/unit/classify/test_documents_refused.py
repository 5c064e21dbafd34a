"""Files that are not what they seem, or hold more than can be read: none is clear.

Each is read in this process: what a worker adds are limits (test_documents_pool.py).
"""

from __future__ import annotations

import io
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("rapidocr", reason="the extra documents")
pytest.importorskip("pypdfium2", reason="the extra documents")

from gateway.classify.text.documents import (
    EMBEDDED,
    ENCRYPTED,
    FORMAT,
    LARGE,
    MOST_BYTES,
    PICTURE,
    Room,
    Unread,
    reading,
)
from tests import made_documents as made

NAME = "Maria Gonzalez"


def read_text(data: bytes, media_type: str) -> str:
    room = Room(1 << 20)
    reading.read(data, media_type, room)
    return "\n".join(room.texts)


def refusal(data: bytes, media_type: str, room: Room | None = None) -> str:
    """Why a file is not read. What a library raises is no reason of ours."""
    with pytest.raises(Unread) as refused:
        reading.read(data, media_type, room or Room(1 << 20))
    return refused.value.reason


def word(change: Callable[[Any], None]) -> bytes:
    return made.word("All is well", change=change)


def excel(change: Callable[[Any], None]) -> bytes:
    return made.excel(["All", "is", "well"], change=change)


# What is not on the page, and is read.


def _header(document: Any) -> None:
    document.sections[0].header.paragraphs[0].text = NAME


def _footer(document: Any) -> None:
    document.sections[0].footer.paragraphs[0].text = NAME


def _comment(document: Any) -> None:
    document.add_comment(document.paragraphs[0].runs, text=NAME, author="A", initials="a")


def _author(document: Any) -> None:
    document.add_comment(document.paragraphs[0].runs, text="Why?", author=NAME, initials="a")


def _property(document: Any) -> None:
    document.core_properties.author = NAME


def _table(document: Any) -> None:
    document.add_table(1, 1).cell(0, 0).text = NAME


def _split(document: Any) -> None:
    """Word puts a run around each correction."""
    paragraph = document.add_paragraph("Mar")
    for letters in ("ia Gon", "za", "lez"):
        paragraph.add_run(letters).bold = True


def _link(document: Any) -> None:
    document.part.relate_to(
        f"mailto:{NAME}",
        "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink",
        is_external=True,
    )


@pytest.mark.parametrize(
    "change", [_header, _footer, _comment, _author, _property, _table, _split, _link]
)
def test_all_of_a_word_document_is_read(change: Callable[[Any], None]) -> None:
    assert NAME in read_text(word(change), made.WORD)


_BODY = "<w:body><w:p>{}</w:p></w:body>"
_WORD_XML = (
    '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main">{}</w:document>'
)


def _with_body(inner: str) -> bytes:
    part = _WORD_XML.format(_BODY.format(inner)).encode()
    return made.repacked(made.word("a"), {"word/document.xml": part})


def test_a_change_that_is_tracked_is_read_as_it_was_and_as_it_is() -> None:
    inner = (
        "<w:r><w:t>Maria </w:t></w:r><w:del><w:r><w:delText>Gonzalez</w:delText></w:r></w:del>"
        "<w:ins><w:r><w:t>Fernandez</w:t></w:r></w:ins>"
    )
    text = read_text(_with_body(inner), made.WORD)
    assert NAME in text
    assert "Maria Fernandez" in text


@pytest.mark.parametrize(
    "inner",
    [
        f'<w:drawing><wp:docPr id="1" name="x" descr="{NAME}"/></w:drawing>',
        f"<w:r><w:instrText>AUTHOR {NAME}</w:instrText></w:r>",
        f"<!-- {NAME} -->",
        f'<w:sdt><w:sdtPr><w:alias w:val="{NAME}"/></w:sdtPr></w:sdt>',
        f"<w:r><w:rPr><w:vanish/></w:rPr><w:t>{NAME}</w:t></w:r>",
    ],
)
def test_what_a_word_document_does_not_show_is_read(inner: str) -> None:
    assert NAME in read_text(_with_body(inner), made.WORD)


def _hidden_sheet(book: Any) -> None:
    sheet = book.create_sheet("more")
    sheet.append([NAME])
    sheet.sheet_state = "veryHidden"


def _cell_comment(book: Any) -> None:
    from openpyxl.comments import Comment

    book.active["A1"].comment = Comment(NAME, "A")


def _formula(book: Any) -> None:
    book.active["B2"] = f'="Dear " & "{NAME}"'


def _hidden_row(book: Any) -> None:
    book.active.append([NAME])
    book.active.row_dimensions[2].hidden = True


def _sheet_name(book: Any) -> None:
    book.active.title = NAME


def _validation(book: Any) -> None:
    from openpyxl.worksheet.datavalidation import DataValidation

    choice = DataValidation("list", formula1=f'"{NAME},other"')
    choice.add("A1")
    book.active.add_data_validation(choice)


def _defined_name(book: Any) -> None:
    from openpyxl.workbook.defined_name import DefinedName

    book.defined_names["who"] = DefinedName("who", attr_text=f'"{NAME}"')


@pytest.mark.parametrize(
    "change",
    [
        _hidden_sheet,
        _cell_comment,
        _formula,
        _hidden_row,
        _sheet_name,
        _validation,
        _defined_name,
    ],
)
def test_all_of_a_workbook_is_read(change: Callable[[Any], None]) -> None:
    assert NAME in read_text(excel(change), made.EXCEL)


def test_the_cells_of_a_row_are_read_side_by_side() -> None:
    text = read_text(made.excel(["first name", "surname"], ["Maria", "Gonzalez"]), made.EXCEL)
    assert "first name\tsurname\nMaria\tGonzalez" in text


def test_the_notes_of_a_slide_are_read() -> None:
    assert NAME in read_text(made.powerpoint("a", "b", notes=NAME), made.POWERPOINT)


def test_the_attachments_of_a_message_are_read() -> None:
    inner = made.mail("hi", (made.pdf([NAME]), made.PDF, "letter.pdf"))
    assert NAME in read_text(inner, "message/rfc822")


def test_a_message_in_a_message_is_read() -> None:
    from email import message_from_bytes
    from email.message import EmailMessage

    outer = EmailMessage()
    outer["Subject"] = "fwd"
    outer.set_content("see below")
    outer.add_attachment(message_from_bytes(made.mail(NAME)))
    assert NAME in read_text(outer.as_bytes(), "message/rfc822")


def test_a_word_that_tags_divide_is_whole() -> None:
    assert NAME in read_text(b"<p>Mar<b>ia</b> Gonz<!-- x --><i>alez</i></p>", "text/html")


def _pdf(**put: Callable[[Any], None]) -> bytes:
    """Of one page, by pypdf's writer."""
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(made.pdf(["All is well"]))))
    for change in put.values():
        change(writer)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def _info(writer: Any) -> None:
    writer.add_metadata({"/Patient": NAME})


def _annotation(writer: Any) -> None:
    from pypdf.annotations import FreeText

    writer.add_annotation(0, FreeText(text=NAME, rect=(50, 50, 200, 90)))


def _outline(writer: Any) -> None:
    writer.add_outline_item(title=NAME, page_number=0)


def _uri(writer: Any) -> None:
    from pypdf.annotations import Link

    writer.add_annotation(0, Link(rect=(50, 50, 90, 90), url=f"https://x.example/{NAME}"))


@pytest.mark.parametrize("change", [_info, _annotation, _outline, _uri])
def test_the_strings_of_a_pdf_are_read(change: Callable[[Any], None]) -> None:
    assert NAME in read_text(_pdf(change=change), made.PDF)


def test_the_metadata_packet_of_a_pdf_is_read() -> None:
    from pypdf.generic import NameObject, StreamObject

    def packet(writer: Any) -> None:
        stream = StreamObject()
        stream.set_data(f"<x><creator>{NAME}</creator></x>".encode())
        stream[NameObject("/Type")] = NameObject("/Metadata")
        writer.root_object[NameObject("/Metadata")] = writer._add_object(stream)

    assert NAME in read_text(_pdf(change=packet), made.PDF)


# What is not read.


def _script(writer: Any) -> None:
    from pypdf.generic import DictionaryObject, NameObject, TextStringObject

    script = {"/S": NameObject("/JavaScript"), "/JS": TextStringObject("app.alert('hello')")}
    action = DictionaryObject({NameObject(key): value for key, value in script.items()})
    writer.root_object[NameObject("/OpenAction")] = action


def _attached(writer: Any) -> None:
    writer.add_attachment("a.txt", b"hello")


def _stray(writer: Any) -> None:
    from pypdf.generic import StreamObject

    stream = StreamObject()
    stream.set_data(NAME.encode())
    writer._add_object(stream)


def _stamp(writer: Any) -> None:
    from pypdf.generic import ArrayObject, DictionaryObject, FloatObject, NameObject

    stamp = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Annot"),
            NameObject("/Subtype"): NameObject("/Ink"),
            NameObject("/Rect"): ArrayObject(map(FloatObject, (0, 0, 9, 9))),
        }
    )
    writer.pages[0][NameObject("/Annots")] = ArrayObject([writer._add_object(stamp)])


@pytest.mark.parametrize("change", [_script, _attached, _stray, _stamp])
def test_a_pdf_with_something_embedded_is_not_read(change: Callable[[Any], None]) -> None:
    assert refusal(_pdf(change=change), made.PDF) == EMBEDDED


def test_an_encrypted_pdf_is_not_read() -> None:
    def lock(writer: Any) -> None:
        writer.encrypt("", "owner", algorithm="RC4-128")

    assert refusal(_pdf(change=lock), made.PDF) == ENCRYPTED


def test_an_earlier_revision_of_a_pdf_is_not_read() -> None:
    from pypdf import PdfWriter

    writer = PdfWriter(io.BytesIO(made.pdf([NAME])), incremental=True)
    writer.add_metadata({"/Title": "other"})
    out = io.BytesIO()
    writer.write(out)
    assert refusal(out.getvalue(), made.PDF) == FORMAT


def test_bytes_behind_a_pdf_are_not_read() -> None:
    assert refusal(made.pdf(["a"]) + NAME.encode(), made.PDF) == FORMAT


def _ole() -> bytes:
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"word/vbaProject.bin": b"x"}, EMBEDDED),
        ({"word/embeddings/oleObject1.bin": b"x"}, EMBEDDED),
        ({"word/media/image1.emf": b"x"}, PICTURE),
        ({"word/media/image1.svg": b"<svg/>"}, PICTURE),
        ({"word/media/movie.mp4": b"x"}, EMBEDDED),
        ({"word/afchunk.rtf": b"{\\rtf1}"}, EMBEDDED),
        ({"word/ink/ink1.xml": b'<ink xmlns="http://www.w3.org/2003/InkML"/>'}, PICTURE),
        ({"word/more.xml": b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"}, FORMAT),
        ({"word/more.xml": b"<a><b></a>"}, FORMAT),
        ({"word/more.xml": b"<a>" * 300 + b"</a>" * 300}, LARGE),
    ],
)
def test_an_office_document_with_a_part_nobody_reads_is_not_read(
    parts: dict[str, bytes], reason: str
) -> None:
    assert refusal(made.repacked(made.word("a"), parts), made.WORD) == reason


def test_an_embedded_workbook_is_read_three_deep_and_no_deeper() -> None:
    def around(data: bytes) -> bytes:
        return made.repacked(made.word("a"), {"word/embeddings/book.docx": data})

    thumbless = made.word(NAME)
    assert NAME in read_text(around(thumbless), made.WORD)
    assert refusal(around(around(around(thumbless))), made.WORD) == EMBEDDED


def _with_bytes_at(data: bytes, place: int, more: bytes) -> bytes:
    """A ZIP file with bytes between two entries, or before its directory, that still opens."""
    end = data.rindex(b"PK\x05\x06")
    (directory,) = struct.unpack_from("<L", data, end + 16)
    changed = bytearray(data[:place] + more + data[place:])
    struct.pack_into("<L", changed, end + len(more) + 16, directory + len(more))
    at = directory + len(more)
    while changed[at : at + 4] == b"PK\x01\x02":
        (start,) = struct.unpack_from("<L", changed, at + 42)
        if start >= place:
            struct.pack_into("<L", changed, at + 42, start + len(more))
        at += 46 + sum(struct.unpack_from("<HHH", changed, at + 28))
    return bytes(changed)


@pytest.mark.parametrize("entry", [1, 3, None])
def test_bytes_between_the_entries_are_not_read(entry: int | None) -> None:
    data = made.word("a")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        place = archive.start_dir if entry is None else archive.infolist()[entry].header_offset
    changed = _with_bytes_at(data, place, NAME.encode() * 4)
    with zipfile.ZipFile(io.BytesIO(changed)) as archive:
        assert archive.testzip() is None
    assert refusal(changed, made.WORD) == FORMAT


def test_bytes_before_and_behind_the_entries_are_not_read() -> None:
    assert refusal(made.word("a") + NAME.encode() * 4, made.WORD) == FORMAT
    assert refusal(NAME.encode() * 4 + made.word("a"), "text/plain") == FORMAT


def test_a_part_that_is_there_twice_is_not_read() -> None:
    out = io.BytesIO(made.word("a"))
    with zipfile.ZipFile(out, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("word/document.xml", "<a/>")
    assert refusal(out.getvalue(), made.WORD) == FORMAT


def test_a_zip_bomb_is_not_unpacked() -> None:
    bomb = made.repacked(made.word("a"), {"word/more.xml": bytes(64 << 20)})
    assert refusal(bomb, made.WORD, Room(1 << 20, octets=1 << 20)) == LARGE


def test_an_encrypted_entry_is_not_read() -> None:
    data = bytearray(made.word("a"))
    directory = data.rindex(b"PK\x01\x02")
    data[directory + 8] |= 1
    local = struct.unpack_from("<L", data, directory + 42)[0]
    data[local + 6] |= 1
    assert refusal(bytes(data), made.WORD) == ENCRYPTED


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (_ole(), "application/msword"),
        (_ole(), made.WORD),
        (b"{\\rtf1 hello}", "text/plain"),
        (b"%!PS-Adobe-3.0", "text/plain"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "text/plain"),
        (b"hello\0there", "text/plain"),
        (b"caf\xe9", "text/plain"),
        (b"hello", "application/octet-stream"),
        (b"hello", made.PDF),
        (b"hello", "application/dicom"),
        (bytes(128) + b"DICM" + bytes(64), "application/dicom"),
        (bytes(128) + b"DICM" + bytes(64), "image/png"),
        (b"ID3\x04hello", "audio/mpeg"),
        (b"GIF89a", "image/gif"),
    ],
)
def test_what_is_in_no_known_format_is_not_read(data: bytes, media_type: str) -> None:
    assert refusal(data, media_type) == FORMAT


def test_a_file_under_another_media_type_is_not_read() -> None:
    assert refusal(made.pdf(["a"]), "text/plain") == FORMAT
    assert refusal(made.word("a"), made.PDF) == FORMAT


@pytest.mark.parametrize("kind", ["multipart/encrypted", "application/pkcs7-mime"])
def test_an_encrypted_message_is_not_read(kind: str) -> None:
    message = (
        f"Subject: a\nMIME-Version: 1.0\nContent-Type: {kind}; boundary=b\n\n--b\n\nx\n--b--\n"
    )
    assert refusal(message.encode(), "message/rfc822") == ENCRYPTED


def test_a_message_with_a_broken_part_is_not_read() -> None:
    message = b"Subject: a\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\nx"
    assert refusal(message, "message/rfc822") == FORMAT


@pytest.mark.parametrize("tag", ["svg", "canvas", "iframe", "object", "embed"])
def test_html_that_draws_is_not_read(tag: str) -> None:
    assert refusal(f"<p>a</p><{tag}>".encode(), "text/html") == PICTURE


def test_a_file_that_is_too_large_is_not_read() -> None:
    assert refusal(b"a" * (MOST_BYTES + 1), "text/plain", Room(1 << 26)) == LARGE


def test_more_text_than_may_be_read_is_not_read() -> None:
    assert refusal(b"a" * 100, "text/plain", Room(99)) == LARGE


def test_more_pages_than_may_be_read_are_not_read() -> None:
    assert refusal(made.pdf(["a"] * 4), made.PDF, Room(1 << 20, pages=3)) == LARGE


def test_a_truncated_file_is_never_read_as_if_it_were_whole() -> None:
    chance = random.Random(5)
    for data, media_type in (
        (made.pdf(["All is well"]), made.PDF),
        (made.excel(["All"]), made.EXCEL),
    ):
        for _ in range(40):
            short = data[: chance.randrange(16, len(data) - 8)]
            with pytest.raises(Exception):  # noqa: B017, PT011 - whatever it is, the worker restricts
                reading.read(short, media_type, Room(1 << 20))


def _png(width: int, height: int, rows: bytes) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">L", len(body)) + kind + body + struct.pack(">L", zlib.crc32(kind + body))
        )

    head = struct.pack(">LLBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )  # fmt: skip


def test_a_picture_bomb_is_not_decoded() -> None:
    assert refusal(_png(60_000, 60_000, b""), "image/png") == LARGE


@pytest.mark.parametrize("extra", [b"hello there", b"PK\x03\x04"])
def test_bytes_behind_a_picture_are_not_read(extra: bytes) -> None:
    assert refusal(_png(8, 8, bytes(72)) + extra, "image/png") == FORMAT


def test_a_chunk_that_nobody_knows_is_not_read() -> None:
    data = _png(8, 8, bytes(72))
    body = NAME.encode()
    more = struct.pack(">L", len(body)) + b"naMe" + body
    more += struct.pack(">L", zlib.crc32(b"naMe" + body))
    assert refusal(data[:33] + more + data[33:], "image/png") == FORMAT
