"""Writes the page of the docs: `python -m tests.translation`."""

from __future__ import annotations

from pathlib import Path

from tests.translation.features import FEATURES, PLAIN
from tests.translation.ways import FRONTS, PROVIDERS, ROUTES, refusal

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "translation.md"
HEAD = """# Translation

What calls of each API may ask of endpoints of each kind. `yes`: the call goes there and means the
same. `no`: it goes elsewhere, or is refused with its field before anything is sent. Empty: the API
has no such field. `python -m tests.translation` writes this page.

{fronts}

"""


def page() -> str:
    columns = [(front, provider) for front in FRONTS for provider in PROVIDERS]
    names = [f"{front}→{provider}" for front, provider in columns]
    lines = ["|".join(["", "feature", *names, ""]), "|---" * (len(columns) + 1) + "|"]
    lines += [
        "|".join(["", name, *(cell(name, *each) for each in columns), ""]) for name in FEATURES
    ]
    fronts = ", ".join([f"{name}: `{ROUTES[name]}`" for name in FRONTS])
    return HEAD.format(fronts=fronts) + "\n".join(lines) + "\n"


def cell(feature: str, front: str, provider: str) -> str:
    fields = FEATURES[feature].get(front)
    if fields is None:
        return ""
    return "yes" if refusal(front, provider, PLAIN[front] | fields) is None else "no"


if __name__ == "__main__":
    PAGE.write_text(page())
