"""Which build of the gateway is measured: the source as it is, or compiled, which is what ships."""

from __future__ import annotations

import argparse
import filecmp
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final

COMPILED: Final = Path("var", "compiled")
"""Where `make compiled` puts it."""

SOURCE: Final = Path("gateway")
_ONE_OF_THEM = f"core/types{EXTENSION_SUFFIXES[0]}"  # all are, or none


def missing(compiled: Path = COMPILED, source: Path = SOURCE) -> str | None:
    """Why there is no compiled build of this source, by this Python. None where there is one."""
    built = compiled / source.name
    if not (built / _ONE_OF_THEM).exists():
        return "there is no compiled build: make compiled"
    for path in source.rglob("*.py"):
        beside = built / path.relative_to(source)
        if not beside.exists() or not filecmp.cmp(path, beside, shallow=False):
            return f"the compiled build is of another source ({path}): make compiled"
    return None


def add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--compiled", action="store_true", help="what `make compiled` built")


def shipped() -> bool:
    """Whether what ships is there to be measured. Else it is the source, which is said."""
    return missing() is None


def environment(compiled: bool) -> dict[str, str]:
    """What a gateway's process is given besides. Ends this one where there is no such build: nobody
    shall take the figures of one for the other's."""
    if not compiled:
        return {}
    if why := missing():
        sys.exit(why)
    return {
        "PYTHONPATH": os.pathsep.join([str(COMPILED.resolve()), str(Path.cwd())]),
        "PYTHONSAFEPATH": "1",  # or this folder's would be first
    }


if __name__ == "__main__":
    sys.exit(missing())
