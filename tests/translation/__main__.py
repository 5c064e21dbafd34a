"""Writes the page of the docs: `python -m tests.translation`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.translation.features import FEATURES, PLAIN
from tests.translation.ways import FRONTS, PROVIDERS, ROUTES, refusal

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "translation.md"
HEAD = """# Translation

What a call may ask of endpoints of each kind. `yes`: it goes there and means the same. `no`: it
goes elsewhere or is refused with its field before anything is sent.
`python -m tests.translation` writes this page.
"""


def page() -> str:
    return HEAD + "".join(map(_table, FRONTS))


def _table(front: str) -> str:
    lines = ["|".join(["", "feature", *PROVIDERS, ""]), "|---" * (len(PROVIDERS) + 1) + "|"]
    for name, sayable in FEATURES.items():
        if front in sayable:
            cells = [_cell(front, provider, sayable[front]) for provider in PROVIDERS]
            lines.append("|".join(["", name, *cells, ""]))
    return f"\n## {ROUTES[front]}\n\n" + "\n".join(lines) + "\n"


def _cell(front: str, provider: str, fields: dict[str, Any]) -> str:
    return "yes" if refusal(front, provider, PLAIN[front] | fields) is None else "no"


if __name__ == "__main__":
    PAGE.write_text(page())
