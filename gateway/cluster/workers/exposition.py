"""The metrics of all workers as one page: each series with the worker's number as a label.

They are not added up: a worker that is started again begins at nothing, which a sum would show as
if all workers had.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_SAMPLE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]*)(\{)?")


def together(pages: Mapping[int, str]) -> str:
    """In the order of their numbers; each family in one place, as the format wants it."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for number, page in sorted(pages.items()):
        family = ""
        for line in page.splitlines():
            if line.startswith("# "):
                family = line.split(" ", 3)[2]
                head = heads.setdefault(family, [])
                if line not in head and len(head) < 2:  # its help and its type
                    head.append(line)
            elif line:
                samples.setdefault(family, []).append(labelled(line, number))
    lines = [line for name, head in heads.items() for line in (*head, *samples.get(name, ()))]
    return "\n".join([*lines, ""])


def labelled(sample: str, number: int) -> str:
    match = _SAMPLE.match(sample)
    if match is None:
        return sample
    name, more = match[1], match[2]
    if more:
        return f'{name}{{worker="{number}",{sample[match.end() :]}'
    return f'{name}{{worker="{number}"}}{sample[match.end() :]}'
