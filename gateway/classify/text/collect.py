"""Gathering the text of one call, under caps."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from gateway.classify.text.octets import decode_text, is_written

MAX_NODES = 200_000  # values of one document that are looked at
_MIN_DIGITS = 7  # numbers of fewer digits identify nobody
LEAST_LONG, LEAST_SHORT = 1_000_000, -100_000  # by the characters that they are written with
_JSON_DEPTH = 4  # of JSON text inside JSON text
_FEWEST_ELEMENTS, _MOST_ELEMENTS = 3, 64  # of a list that may be one number
_LONGEST_ELEMENT, _LARGEST_ELEMENT = 4, 9999  # four digits are the longest group of most numbers
_DATA_URL = re.compile(r"data:[\w.+/;=-]{0,100};base64,", re.IGNORECASE)

_SEAM = 40  # characters on either side of a border between two values
# Groups of four digits or so and addresses are worth putting together; short numbers in lists are
# not, nor is what is called, as in `@app.route("/")`.
_HEAD = re.compile(r"\s?(?:-?\d{2,}(?:[ -]\d{2,})*(?![\w])|@?[\w.-]+\.\w+(?![\w])(?![\w.-]*\())")
_TAIL = re.compile(r"(?<![\w.])(?:\d{3,}(?:[ -]\d{2,})*[ -]?|[\w.+-]{1,30}@?[\w.-]{0,30})$")
_SPLIT = re.compile(r"\d[ \d-]{7,}\d|\w@\w+\.")

PROTOCOL_WORDS = frozenset(
    (  # noqa: SIM905 - fifty lines as a list
        "assistant arguments auto call_id content description developer enum false function id "
        "input input_text items logprobs max_tokens message messages metadata model n name none "
        "null object output output_text parameters properties required role seed stop stream "
        "string system temperature text tool tool_call_id tool_calls tool_choice tools top_p "
        "true type user"
    ).split()
)
"""Words of the protocols themselves. Alone they hold nothing, so they are not scanned."""
LABELS = frozenset(
    {"author", "call_id", "from", "id", "model", "object", "role", "sender", "speaker", "type"}
    | {"tool_call_id", "user"}
)
"""Fields that say whose the value next to them is, or of which kind. None is a part of it: nothing
is read across the border between `"role": "human"` and `"content": "@app.route"`."""
_LONGEST_WORD = max(map(len, PROTOCOL_WORDS))  # longer strings need not be hashed


OVER_CAP = "over_cap"


class Unscannable(Exception):
    """Not all of a call can be read. What could be is not looked at either."""

    def __init__(self, reason: str) -> None:
        """`reason`: a reason code; `OVER_CAP` of more text or more values than may be looked at."""
        super().__init__(reason)
        self.reason = reason


class TextCollector:
    """Collects texts; remembers the first reason why a call cannot be read in full."""

    unscannable: str | None = None
    _tail = ""  # what the last values end with, if more of it may follow
    _characters = 0  # in texts that had to be decoded first, or in keys: no more than may be

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._room_nodes = MAX_NODES
        self._texts: list[str] = []
        self._ends: list[str] = []  # values since, not yet looked at; only the first may be long

    def texts(self) -> list[str]:
        """All of them, if the call could be read in full."""
        texts, most = self._texts, self._max_bytes
        if 4 * sum(map(len, texts)) > most and _bytes(texts) > most:  # guard: C17.byte-cap
            raise Unscannable(OVER_CAP)
        if self.unscannable is not None:
            raise Unscannable(self.unscannable)
        return texts

    def mark(self, what: str) -> None:
        if self.unscannable is None:
            self.unscannable = f"unscannable:{what}"

    def count(self, values: int = 1) -> None:
        self._room_nodes -= values
        if self._room_nodes < 0:
            raise Unscannable(OVER_CAP)

    def text(self, text: str, depth: int = 0) -> None:
        """One string, and what it says once decoded if it is JSON text with escapes in it."""
        if (len(text) <= _LONGEST_WORD and text in PROTOCOL_WORDS) or not text or text.isspace():
            return
        self._characters += len(text)
        if self._characters > self._max_bytes:
            raise Unscannable(OVER_CAP)
        self._texts.append(text)
        if ";" in text or "\\" in text:
            self._read_closely(text, depth)

    def values(self, texts: Iterable[str]) -> None:
        """Strings that are content. A value may be split over several of them, so what two in a
        row say across their border is a text of its own (C5)."""
        for text in texts:
            size = len(text)
            if size <= _LONGEST_WORD and text in PROTOCOL_WORDS:
                continue
            if text and not text.isspace():
                self._texts.append(text)
                if ";" in text or "\\" in text:
                    self._read_closely(text)
            if (self._ends or self._tail) and (head := _HEAD.match(text, 0, 2 * _SEAM)):
                self._across(head[0])
            if size <= 2 * _SEAM:
                self._ends.append(text)
            else:  # too long to be all tail: what stands before it does not go on
                self._ends = [text]

    def _read_closely(self, text: str, depth: int = 0) -> None:
        if "64," in text and _DATA_URL.search(text):
            self.mark("data_url")
        if "\\" in text and text.lstrip()[:1] in ("{", "[", '"'):
            self._decoded(text, depth)

    def _across(self, head: str) -> None:
        """What the values so far say together with the head of the next. Looked for only where that
        starts as if it went on: most do not."""
        for end in self._ends:
            if len(end) > 2 * _SEAM:
                self._tail, end = "", end[-2 * _SEAM :]
            tail = _TAIL.search(end)
            whole = tail is not None and len(tail[0]) == len(end)
            self._tail = ((self._tail if whole else "") + tail[0])[-_SEAM:] if tail else ""
        self._ends = []
        if self._tail and _SPLIT.search(self._tail + head):
            self.text(self._tail + head)

    def number(self, number: int | float) -> None:
        """Digits of a JSON number can be a card's. Integers of any size come as they are."""
        if isinstance(number, float):
            if not math.isfinite(number) or abs(number) < 10 ** (_MIN_DIGITS - 1):
                return
            digits = f"{number:.6f}".rstrip("0").rstrip(".")
        else:
            digits = str(number)
        if len(digits) >= _MIN_DIGITS:
            self.text(digits)

    @staticmethod
    def are_short(numbers: Sequence[int]) -> bool:
        """Whether `number` leaves each of them out."""
        return min(numbers) > LEAST_SHORT and max(numbers) < LEAST_LONG

    def elements(self, elements: list[Any]) -> None:
        """A list of short strings or small integers may be a number digit by digit, or a text sign
        by sign."""
        if not _FEWEST_ELEMENTS <= len(elements) <= _MOST_ELEMENTS:
            return
        kind = type(elements[0])
        if kind not in (int, str) or not {kind}.issuperset(map(type, elements)):
            return
        if kind is int:
            if min(elements) >= 0 and max(elements) <= _LARGEST_ELEMENT:
                self.text(str(elements))
            return
        if max(map(len, elements)) > _LONGEST_ELEMENT:
            return
        joined = "".join(elements)
        if len(joined) >= _MIN_DIGITS and any(map(str.isdecimal, joined)):
            self.text(str(elements) if all(map(str.isalnum, elements)) else joined)

    def characters(self, numbers: list[Any]) -> None:
        """A list of small integers may spell text by its code points or by its octets."""
        if len(numbers) < _MIN_DIGITS or type(numbers[0]) is not int:
            return
        if not {int}.issuperset(map(type, numbers)):
            return
        least, most = min(numbers), max(numbers)
        if least >= 9 and most < 0x110000:
            spelled = "".join(map(chr, numbers))
            if all(map(is_written, spelled)):
                self.text(spelled)
        if least >= 0 and most < 256 and (least == 0 or most > 127):
            decoded = decode_text(bytes(numbers))
            if decoded is not None:
                self.text(decoded)

    def _decoded(self, text: str, depth: int) -> None:
        if depth >= _JSON_DEPTH:
            self.mark("nested_json")
            return
        if len(text) > self._room_nodes:  # what is large enough may have more values than may be
            self._check_room(text)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return  # not JSON; as plain text its escapes are read by normalise
        todo = [value]
        while todo:
            self.count()
            match todo.pop():
                case dict() as document:
                    todo.extend(reversed([x for pair in document.items() for x in pair]))
                case list() as document:
                    todo.extend(reversed(document))
                case str() as document:
                    self.text(document, depth + 1)
                case bool() | None:
                    pass
                case int() | float() as document:
                    self.number(document)

    def _check_room(self, text: str) -> None:
        """Before all of it is decoded at once: punctuation says what it may have at most."""
        if len(text) > self._max_bytes:
            raise Unscannable(OVER_CAP)
        self.count(sum(map(text.count, "[{:,")))


def _bytes(texts: Iterable[str]) -> int:
    return sum(len(text.encode("utf-8", "replace")) for text in texts)
