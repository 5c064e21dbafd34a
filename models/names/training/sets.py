"""Annotated sets whose licence lets us ship weights trained on them (JSONL, see the model card).

`{"id","text","lang","spans":[{"start","end","type","raw"}]}` a line, offsets in characters.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SHIPPABLE = (
    "presidio_research_large",  # MIT
    "presidio_research_v2",  # MIT
    "wnut17",  # CC BY 4.0
    "btc",  # CC BY 4.0
    "uner_ewt",  # CC BY-SA 4.0
    "echr_fr_es",  # MIT
    "benign",  # Apache-2.0, MIT, CC0
)
_ADDRESSES = {"ADDRESS", "STREET_ADDRESS"}
_KEPT = {"PERSON", "LOCATION", "ORGANIZATION"}
_TITLE = re.compile(
    r"(?:MM?\.|Mmes?|Mlle|Mr\.?|Mrs\.?|Ms\.?|Sir|Lord|Me|Dr\.?|Prof\.?|Sres?\.|Sras?\.|D\.|D\.ª|Don|"
    r"Doña|el Sr\.|la Sra\.)\s+(?:(?:et|y)\s+(?:Mme|Sra\.)\s+)?"
)


@dataclass(frozen=True, slots=True)
class Sample:
    """A text and its mentions: (start, end, kind)."""

    text: str
    spans: tuple[tuple[int, int, str], ...]
    lang: str
    source: str


def read(folder: Path, name: str, *, held_out: bool) -> Iterator[Sample]:
    """A fifth of each set, by hash of the text, is held out."""
    for line in (folder / f"{name}.dev.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        if name == "benign" and record.get("benign_class") != "none":
            continue
        if is_held_out(record["text"]) == held_out:
            spans = tuple(_spans(record))
            yield Sample(record["text"], spans, record["lang"], name)


def is_held_out(text: str) -> bool:
    return hashlib.sha256(text.encode()).digest()[0] < 51


def _spans(record: dict) -> Iterator[tuple[int, int, str]]:  # type: ignore[type-arg]
    for span in record["spans"]:
        kind = "STREET_ADDRESS" if span["raw"] in _ADDRESSES else span["type"]
        if kind not in _KEPT and kind != "STREET_ADDRESS":
            continue
        start, end = span["start"], span["end"]
        if kind == "PERSON" and (title := _TITLE.match(record["text"], start, end)):
            start = title.end() if title.end() < end else start
        yield start, end, kind
