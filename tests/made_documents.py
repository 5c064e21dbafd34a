"""Documents and pictures for tests, made by the libraries that programs write them with."""

from __future__ import annotations

import base64
import io
import math
import random
import zipfile
from collections.abc import Callable, Mapping, Sequence
from email.message import EmailMessage

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

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


def picture(*lines: str, size: tuple[int, int] = (900, 400), kind: str = "PNG") -> bytes:
    """A screenshot of lines of text."""
    return encoded(drawn(*lines, size=size), kind)


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    """`options`: of Pillow's save."""
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def drawn(*lines: str, size: tuple[int, int] = (900, 400)) -> Image.Image:
    image = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(image)
    for at, line in enumerate(lines):
        pen.text((30, 24 + 46 * at), line, fill="black", font=ImageFont.load_default(24))
    return image


def shaded(side: int) -> Image.Image:
    """A round thing under a lamp, with eyes: shaded as a face is."""
    across, down = np.meshgrid(np.linspace(-1, 1, side), np.linspace(-1, 1, side))
    light = 150 - 90 * (across - 0.3) ** 2 - 70 * (down + 0.2) ** 2
    light += 18 * np.sin(9 * across) * np.cos(7 * down)
    for eye in (-0.35, 0.35):
        light -= 90 * np.exp(-((across - eye) ** 2 + (down + 0.2) ** 2) / 0.02)
    skin = np.stack([light * 1.2, light, light * 0.8], axis=2)
    return Image.fromarray(skin.clip(0, 255).astype(np.uint8))


def signed(image: Image.Image, at: tuple[int, int] = (100, 280), seed: int = 1) -> Image.Image:
    """With a line through it as a pen draws one."""
    chance = random.Random(seed)
    points = [
        (
            at[0] + 3 * n + 14 * math.sin(n / 3),
            at[1] + 28 * math.sin(n / 2.2) + chance.uniform(-4, 4),
        )
        for n in range(80)
    ]
    whole = image.copy()
    ImageDraw.Draw(whole).line(points, fill=(20, 20, 90), width=3, joint="curve")
    return whole


def scanned(image: Image.Image, seed: int = 1) -> Image.Image:
    """Printed, and laid on a scanner not quite straight."""
    chance, noise = random.Random(seed), np.random.default_rng(seed)
    page = image.convert("L").rotate(
        chance.uniform(-1, 1), fillcolor=255, resample=Image.Resampling.BICUBIC
    )
    page = page.filter(ImageFilter.GaussianBlur(chance.uniform(0.3, 0.9)))
    grey = np.asarray(page) * chance.uniform(0.9, 1)
    grey = grey + noise.normal(0, chance.uniform(1, 5), grey.shape)
    return Image.fromarray(grey.clip(0, 255).astype(np.uint8))


def pdf_with(*pictures: Image.Image) -> bytes:
    """A page for each picture, and nothing else on it."""
    from reportlab.lib.utils import ImageReader
    from reportlab.pdfgen.canvas import Canvas

    out = io.BytesIO()
    canvas = Canvas(out)
    for one in pictures:
        canvas.drawImage(ImageReader(one), 40, 300, width=500, height=500 * one.height / one.width)
        canvas.showPage()
    canvas.save()
    return out.getvalue()
