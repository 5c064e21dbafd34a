"""How commands speak: colour and progress on a terminal's stderr, data on stdout.

`err` and `out` are made when something is said: a gateway whose words go to a file or a pipe needs
no terminal's library, which takes as long to import as the settings do to read.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.config import Settings

    err: Console
    out: Console

log = logging.getLogger(__name__)
_SHOW_WARNING = warnings.showwarning
_in_log = False  # whether what is said goes into the log, whose lines are all JSON
DEFAULT_CONFIG = Path(__file__).parent.parent / "default.yaml"


def __getattr__(name: str) -> Console:
    if name not in ("err", "out"):
        raise AttributeError(name)
    from rich.console import Console  # a gateway's words mostly go to a file

    made = Console(highlight=False, emoji=False)  # names of models may have `:cat:` in them
    if name == "err":
        made = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)
    globals()[name] = made
    return made


def _err() -> Console:
    console: Console = globals().get("err") or __getattr__("err")
    return console


def speak_in_log(on: bool = True) -> None:
    """Where logs are JSON, every line of standard error is: what commands say, warnings of Python,
    and the exception that ends the process."""
    global _in_log
    _in_log = on
    warnings.showwarning = _log_warning if on else _SHOW_WARNING
    sys.excepthook = _log_the_last if on else sys.__excepthook__


def _log_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Its text may quote a call, as an exception's may."""
    log.warning("Python warns: %s at %s:%d", category.__name__, filename, lineno)


def _log_the_last(
    kind: type[BaseException], exc: BaseException, trace: TracebackType | None
) -> None:
    log.critical("the process ends by a bug", exc_info=(kind, exc, trace))


def fail(message: str) -> None:
    if _in_log:
        log.error("%s", message)
        return
    _err().print("[bold red]error:[/]", end=" ")
    _err().print(message, markup=False)


def say(strong: str, rest: str, style: str) -> None:
    """One line on stderr that begins with `strong`, in this style on a terminal."""
    if _in_log:
        log.info("%s %s", strong, rest)
        return
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


def settings_path(path: Path | None) -> Path:
    """`./spillway.yaml` if it is there, else the default, where none is given."""
    if path is not None:
        return path
    own = Path("spillway.yaml")
    return own if own.exists() else DEFAULT_CONFIG


def load_settings(path: Path | None) -> Settings:
    """The file's settings; without one, those of `settings_path`."""
    from gateway import config  # Pydantic takes a while, and `--help` needs none

    settings = config.load(settings_path(path))
    if settings.classify.registry or settings.classify.recognizers:
        from gateway.classify.patterns import registry  # Presidio takes a second to import

        registry.load(settings.classify)
    return settings


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A spinner on a terminal, a line per new step elsewhere."""
    if _in_log:
        yield lambda line: log.info("%s", line)
        return
    if sys.stderr.isatty():
        with _err().status("starting") as status:
            yield status.update
        return
    yield lambda line: print(line, file=sys.stderr, flush=True)
