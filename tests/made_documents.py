"""Documents and pictures for tests, made by the libraries that people's programs write them with."""

from __future__ import annotations

import base64
import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from email.message import EmailMessage

WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
EXCEL = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
POWERPOINT = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
PDF = "application/pdf"


def data_url(data: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def pdf(pages: Sequence[str], **options: object) -> bytes:
    """Of lines of text; `options`: of reportlab's Canvas."""
    from reportlab.pdfgen.canvas import Canvas

    out = io.BytesIO()
    canvas = Canvas(out, **options)
    for page in pages:
        text = canvas.beginText(72, 770)
        for line in page.split("\n"):
            text.textLine(line)
        canvas.drawText(text)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def word(*paragraphs: str, change: Callable[[object], None] = lambda document: None) -> bytes:
    """`change`: what else is done to the document of python-docx."""
    import docx

    document = docx.Document()
    for paragraph in paragraphs:
        document.add_paragraph(paragraph)
    change(document)
    out = io.BytesIO()
    document.save(out)
    return repacked(out.getvalue(), {"docProps/thumbnail.jpeg": None})


def excel(*rows: Sequence[object], change: Callable[[object], None] = lambda book: None) -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(list(row))
    change(book)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def powerpoint(title: str, body: str, notes: str = "") -> bytes:
    import pptx

    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = title
    slide.placeholders[1].text = body
    if notes:
        slide.notes_slide.notes_text_frame.text = notes
    out = io.BytesIO()
    deck.save(out)
    return repacked(out.getvalue(), {"docProps/thumbnail.jpeg": None})


def mail(body: str, *attached: tuple[bytes, str, str], **headers: str) -> bytes:
    """`attached`: content, media type and file name."""
    message = EmailMessage()
    for name, value in ({"Subject": "hello"} | headers).items():
        message[name] = value
    message.set_content(body)
    for content, media_type, filename in attached:
        main, _, sub = media_type.partition("/")
        message.add_attachment(content, maintype=main, subtype=sub, filename=filename)
    return message.as_bytes()


def repacked(data: bytes, parts: Mapping[str, bytes | None]) -> bytes:
    """A ZIP file with these parts beside its own, or in their place; None leaves one out."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", 8) as new:
        whole = {name: old.read(name) for name in old.namelist()}
        for name, part in {**whole, **parts}.items():
            if part is not None:
                new.writestr(name, part)
    return out.getvalue()
