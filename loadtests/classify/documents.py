"""How many documents with an identifier are restricted, and how many clean ones are.

    python -m loadtests.classify.documents [--kind drawn|browser] [--count 20] [--seed 1]

`drawn` are files by the libraries that the tests use: PDF, DOCX, XLSX and PPTX, screenshots,
scans of print, and scans in a PDF; the limits of pictures were found on such, and hold for all.
`browser` are pages that Chromium shows, as screenshots and as PDF: prose, tables, code, forms and
tiles, light and dark. Half of the documents hold one identifier in one of their lines. Each is read
as a worker reads it, and its text is scanned by the profile `patterns`. `read` says how many
documents were read in full: all others are restricted. Shares have the 95 % interval of Wilson.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from PIL import Image

from gateway.classify.profile import Profile
from gateway.classify.scan_workers import factories
from gateway.classify.text.documents import Room, Unread, reading
from gateway.config import ClassifySettings
from loadtests.classify.conversations import wilson
from tests import made_documents as made

_WORDS = (  # noqa: SIM905 - three lines instead of forty
    "server latency budget queue model token batch memory cluster deploy metric alert region "
    "revenue margin forecast sprint backlog ticket release branch merge commit pipeline cache "
    "index schema column filter render layout panel sensor valve pump rotor"
).split()
_IDENTIFIERS = (
    "card 4111 1111 1111 1111",
    "SSN 536-22-8726",
    "mail maria.gonzalez@example.org",
    "IBAN DE89 3704 0044 0532 0130 00",
    "call +44 20 7946 0958",
)
_LINES = 9


@dataclass
class Tally:
    """Of one form of documents."""

    restricted: Counter[bool] = field(default_factory=Counter)  # by whether one has an identifier
    all: Counter[bool] = field(default_factory=Counter)
    read: int = 0
    cpu_s: float = 0.0


def lines(chance: random.Random, identifier: str) -> list[str]:
    """Of plain words; `identifier` stands in one of them."""
    text = [" ".join(chance.choices(_WORDS, k=chance.randint(3, 6))) for _ in range(_LINES)]
    if identifier:
        text[chance.randrange(_LINES)] += f", {identifier}"
    return text


def drawn(chance: random.Random) -> dict[str, Callable[[list[str]], tuple[bytes, str]]]:
    def page(text: list[str]) -> Image.Image:
        return made.drawn(*text, size=(1100, 480))

    def scan(text: list[str]) -> Image.Image:
        return made.scanned(page(text), chance.randrange(1 << 30))

    return {
        "pdf": lambda text: (made.pdf(["\n".join(text)]), made.PDF),
        "docx": lambda text: (made.word(*text), made.WORD),
        "xlsx": lambda text: (made.excel(*[one.split(", ") for one in text]), made.EXCEL),
        "pptx": lambda text: (made.powerpoint(text[0], "\n".join(text[1:])), made.POWERPOINT),
        "screenshot": lambda text: (made.encoded(page(text)), "image/png"),
        "scan": lambda text: (made.encoded(scan(text), "JPEG", quality=85), "image/jpeg"),
        "scan in a pdf": lambda text: (made.pdf_with(scan(text)), made.PDF),
    }


def browser(chance: random.Random) -> dict[str, Callable[[list[str]], tuple[bytes, str]]]:
    from playwright.sync_api import sync_playwright  # of the tests, as Chromium is

    page = sync_playwright().start().chromium.launch(
        executable_path="/usr/bin/chromium", args=["--no-sandbox"]
    ).new_page(viewport={"width": 1100, "height": 700})  # fmt: skip

    def shown(text: list[str]) -> None:
        dark = chance.random() < 0.3
        style = "background:#111;color:#eee" if dark else ""
        face = chance.choice(("sans-serif", "serif", "monospace"))
        body = chance.choice((_prose, _table, _code, _form, _tiles))(text)
        page.set_content(f"<body style='font-family:{face};{style}'>{body}</body>")

    def screenshot(text: list[str]) -> tuple[bytes, str]:
        shown(text)
        if chance.random() < 0.5:
            return page.screenshot(), "image/png"
        return page.screenshot(type="jpeg", quality=85), "image/jpeg"

    def printed(text: list[str]) -> tuple[bytes, str]:
        shown(text)
        return page.pdf(), made.PDF

    return {"screenshot": screenshot, "printed": printed}


def _prose(text: list[str]) -> str:
    return f"<h2>{text[0]}</h2><p>{'. '.join(text[1:5])}</p><ul>{_each('li', text[5:])}</ul>"


def _table(text: list[str]) -> str:
    rows = ("".join(f"<td>{cell}</td>" for cell in one.split(", ")) for one in text)
    return f"<table border=1 cellpadding=6>{_each('tr', rows)}</table>"


def _code(text: list[str]) -> str:
    return f"<pre style='background:#1e1e1e;color:#d4d4d4;padding:9px'>{chr(10).join(text)}</pre>"


def _form(text: list[str]) -> str:
    fields = "".join(f"<p>{one[:12]}<br><input size=60 value='{one}'></p>" for one in text)
    return f"<form style='background:#f3f4f6;color:#111;padding:16px'>{fields}</form>"


def _tiles(text: list[str]) -> str:
    style = "border:1px solid #999;border-radius:8px;padding:12px;width:420px"
    return "".join(f"<div style='{style}'>{one}</div>" for one in text)


def _each(tag: str, texts: Iterator[str] | list[str]) -> str:
    return "".join(f"<{tag}>{text}</{tag}>" for text in texts)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kind", choices=("drawn", "browser"), default="drawn")
    parser.add_argument("--count", type=int, default=20, help="of each form, half with identifiers")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    settings = ClassifySettings(profile="patterns")
    profile = Profile.from_settings(settings)
    scanner = factories.build(settings, profile.types)
    for form, make in {"drawn": drawn, "browser": browser}[options.kind](chance).items():
        tally = Tally()
        for number in range(options.count):
            has = number % 2 == 0
            data, media_type = make(lines(chance, chance.choice(_IDENTIFIERS) if has else ""))
            room, started_s = Room(1 << 20), time.process_time()
            restricted = False
            try:
                reading.read(data, media_type, room)
                tally.read += 1
                findings = [f for text in room.texts for f in scanner.scan(text)]
                restricted = profile.restricts(findings)
            except Unread:
                restricted = True
            tally.cpu_s += time.process_time() - started_s
            tally.all[has] += 1
            tally.restricted[has] += restricted
        print(_told(form, tally), flush=True)
    return 0


def _told(form: str, tally: Tally) -> str:
    shares = []
    for has, words in ((True, "with an identifier"), (False, "clean")):
        low, high = wilson(tally.restricted[has], tally.all[has])
        share = f"{tally.restricted[has]} of {tally.all[has]}"
        shares.append(f"{words} restricted {share} ({100 * low:.0f} to {100 * high:.0f} %)")
    total = sum(tally.all.values())
    cost = f"read {tally.read} of {total}, {1e3 * tally.cpu_s / total:.0f} CPU-ms each"
    return f"{form}: {'; '.join(shares)}; {cost}"


if __name__ == "__main__":
    sys.exit(main())
