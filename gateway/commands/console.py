"""How commands speak: colour and progress on a terminal's stderr, data on stdout.

`err` and `out` are made when something is said: a gateway whose words go to a file or a pipe needs
no terminal's library, which takes as long to import as the settings do to read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.config import Settings

    err: Console
    out: Console

DEFAULT_CONFIG = Path(__file__).parent.parent / "default.yaml"


def __getattr__(name: str) -> Console:
    if name not in ("err", "out"):
        raise AttributeError(name)
    from rich.console import Console  # a gateway's words mostly go to a file

    made = Console(highlight=False)
    if name == "err":
        made = Console(stderr=True, highlight=False, soft_wrap=True)
    globals()[name] = made
    return made


def _err() -> Console:
    found: Console = globals().get("err") or __getattr__("err")
    return found


def fail(message: str) -> None:
    _err().print("[bold red]error:[/]", end=" ")
    _err().print(message, markup=False)


def say(strong: str, rest: str, style: str) -> None:
    """One line on stderr that begins with `strong`, in this style on a terminal."""
    if sys.stderr.isatty():
        _err().print(f"[{style}]{strong}[/]", end=" ")
        _err().print(rest, markup=False)
    else:
        print(strong, rest, file=sys.stderr, flush=True)


def put_json(value: Any) -> None:
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def put_json_line(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, metavar="FILE",
        help="settings (default: ./spillway.yaml if it is there, else the built-in ones)",
    )  # fmt: skip


def unreachable(url: str, exc: Exception) -> str:
    return f"{url}: no gateway answers there ({type(exc).__name__}); start one, or name its --url"


def path_of(path: Path | None) -> Path:
    """`./spillway.yaml` if it is there, else the default, where none is given."""
    if path is not None:
        return path
    own = Path("spillway.yaml")
    return own if own.exists() else DEFAULT_CONFIG


def settings_of(path: Path | None) -> Settings:
    """The file's settings; without one, those of `path_of`."""
    from gateway import config  # Pydantic takes a while, and `--help` needs none

    settings = config.load(path_of(path))
    if settings.classify.registry or settings.classify.recognizers:
        from gateway.classify.patterns import registry  # Presidio takes a second to import

        registry.load(settings.classify)
    return settings


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A spinner on a terminal, a line per new step elsewhere."""
    if sys.stderr.isatty():
        with _err().status("starting") as status:
            yield status.update
        return
    yield lambda line: print(line, file=sys.stderr, flush=True)
