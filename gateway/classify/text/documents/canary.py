"""Samples that a process must read right before it reads anybody's documents."""

from __future__ import annotations

import io

from PIL import Image, ImageDraw, ImageFont

from gateway.classify.text.documents import PDF, Room, reading

WORDS = "Canary of Ward 4711"
_CONTENT = f"BT /F 20 Tf 20 40 Td ({WORDS}) Tj ET\n"
_OBJECTS = (
    "<</Type/Catalog/Pages 2 0 R>>",
    "<</Type/Pages/Kids[3 0 R]/Count 1>>",
    "<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 100]/Contents 4 0 R"
    "/Resources<</Font<</F 5 0 R>>>>>>",
    f"<</Length {len(_CONTENT)}>>stream\n{_CONTENT}endstream",
    "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
)


def missed() -> list[str]:
    """The kinds of documents that are not read right. Raises what a reader raises."""
    wrong = []
    for media_type, data in ((PDF, _pdf()), ("image/png", _picture())):
        room = Room(10_000)
        reading.read(data, media_type, room)
        if WORDS not in "\n".join(room.texts):
            wrong.append(media_type)
    return wrong


def _pdf() -> bytes:
    whole, places = b"%PDF-1.4\n", []
    for number, text in enumerate(_OBJECTS, 1):
        places.append(len(whole))
        whole += f"{number} 0 obj\n{text}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    trailer = f"xref\n0 6\n0000000000 65535 f \n{table}trailer<</Size 6/Root 1 0 R>>\n"
    return whole + f"{trailer}startxref\n{len(whole)}\n%%EOF\n".encode()


def _picture() -> bytes:
    picture = Image.new("L", (360, 60), "white")
    ImageDraw.Draw(picture).text((20, 16), WORDS, font=ImageFont.load_default(24))
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()
