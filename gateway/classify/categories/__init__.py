"""Categories of the operator's own: whether a call is near to examples, or holds a value of a
table. Off unless `classify.categories` names one.

`examples.py` reads the examples, `nearness.py` finds from them what is near, `embeddings.py` has
the model that says so, in this process. `values.py` is the table of exact values, `words.py` cuts
texts into the words that it is asked about. `matching.py` holds a text against all categories, and
`reader.py` does it in a thread. Which calls are restricted says `verdicts/categories.py`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from gateway.config import ClassifySettings

PREFIX = "category:"
"""Of the type of a finding, and of the reason code of a call, before the name of its category."""


def category_files(settings: ClassifySettings) -> list[Path]:
    """What may change while its name does not."""
    return [
        path
        for its in settings.categories.values()
        for path in (its.examples, its.counterexamples, its.values)
        if path is not None
    ]


def file_digest(path: Path) -> str:
    """Of what is in it now; of one that cannot be read another than of any that can."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "?"
