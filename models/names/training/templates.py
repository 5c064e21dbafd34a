"""Text with slots, as the files of `text/` have it.

`{slot}` or `{slot:case}` stands for a value, `[words](KIND)` is a mention written out, `{{` and
`}}` are braces, `\\n` is a line break. One example a line, `#` begins a comment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

SLOTS = frozenset(
    (  # noqa: SIM905 - one line instead of thirty
        "person given surname person_rev titled initials handle surname_caps street address "
        "address_lines city country region org product nationality date time age phone email "
        "number id money url iban card"
    ).split()
)
CASES = frozenset({"", "nom", "gen", "dat", "acc", "ins", "loc", "voc"})
MENTIONS = {
    "PERSON": "PERSON",
    "ADDRESS": "STREET_ADDRESS",
    "STREET_ADDRESS": "STREET_ADDRESS",
    "LOCATION": "LOCATION",
    "ORGANIZATION": "ORGANIZATION",
}
_PART = re.compile(
    r"\{\{|\}\}|\{(?P<slot>\w+)(?::(?P<case>\w+))?\}|\[(?P<said>[^\[\]\n]+)\]\((?P<kind>[A-Z_]+)\)"
)


class BadTemplate(ValueError):
    """A line that is no template; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a template: literal text, a mention written out, or a slot."""

    text: str = ""
    kind: str = ""
    slot: str = ""
    case: str = ""


def parse(line: str) -> tuple[Part, ...]:
    line = line.replace("\\n", "\n")
    parts: list[Part] = []
    at = 0
    for match in _PART.finditer(line):
        _literal(parts, line[at : match.start()])
        at = match.end()
        if match[0] in ("{{", "}}"):
            parts.append(Part(match[0][0]))
        elif match["slot"]:
            if match["slot"] not in SLOTS or (match["case"] or "") not in CASES:
                raise BadTemplate(f"unknown slot {match[0]}")
            parts.append(Part(slot=match["slot"], case=match["case"] or ""))
        elif match["kind"] in MENTIONS:
            parts.append(Part(match["said"], MENTIONS[match["kind"]]))
        else:  # a Markdown link
            parts.append(Part(match[0]))
    _literal(parts, line[at:])
    return tuple(parts)


def _literal(parts: list[Part], text: str) -> None:
    if re.search(r"[{}]", text):
        raise BadTemplate(f"a lone brace in {text[:40]!r}")
    if text:
        parts.append(Part(text))


def read(path: Path) -> list[tuple[Part, ...]]:
    found = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            found.append(parse(line))
        except BadTemplate as exc:
            raise BadTemplate(f"{path.name}:{number}: {exc}") from None
    return found
