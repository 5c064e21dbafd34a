"""What the commands that speak to registries and servers share."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from gateway import config
from gateway.cli import console
from gateway.cli.models import add_repository
from gateway.config import ConfigError, RegistrySettings
from gateway.models.registry import ModelRegistry, RegistryError
from gateway.models.registry.kinds import address
from gateway.models.registry.server import Server, over


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the model")
    add_repository(parser)
    parser.add_argument("--json", action="store_true", help="the result as JSON")


def add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--server",
        metavar="URL",
        help="the Triton that serves it, where it is not the embedded one",
    )


def add_registry(parser: argparse.ArgumentParser, option: str) -> None:
    parser.add_argument(
        option, dest="registry", metavar="REGISTRY",
        help="a name under registries in the settings, a path or a URL; the only one there if not",
    )  # fmt: skip
    parser.add_argument("--config", type=Path, help="settings (default: ./spillway.yaml, or ours)")


def registry_settings(args: argparse.Namespace) -> RegistrySettings:
    """By its name in the settings, or its address. Raises ConfigError."""
    name: str | None = args.registry
    if name is not None and ("/" in name or name.startswith(".")):
        return RegistrySettings(url=name)
    known = _registries(args.config)
    if name is None and len(known) == 1:
        return next(iter(known.values()))
    if name is None or name not in known:
        there = ", ".join(sorted(known)) or "none"
        raise ConfigError(
            f"{'name a registry' if name is None else f'no registry {name!r}'}: the settings "
            f"have {there}; a path begins with ./ or /, and a URL says its kind"
        )
    return known[name]


def _registries(path: Path | None) -> dict[str, RegistrySettings]:
    own = Path("spillway.yaml")
    if path is None and not own.exists():
        return {}
    return config.load(path or own).registries


@contextmanager
def opened(settings: RegistrySettings) -> Iterator[ModelRegistry]:
    registry = address.opened(settings)
    # What the Triton of a trial says is in the error; a handler keeps it off the terminal.
    logging.getLogger("gateway").addHandler(logging.NullHandler())
    try:
        yield registry
    finally:
        registry.close()


def find_servers(args: argparse.Namespace) -> Callable[[], list[Server]]:
    return lambda: over(args.repository, args.server)


def failed(exc: RegistryError, args: argparse.Namespace) -> int:
    if args.json:
        console.put_json({"ok": False, "error": str(exc), "kind": type(exc).__name__})
    else:
        console.fail(str(exc))
    return 1


@contextmanager
def bytes_bar(label: str) -> Iterator[tuple[Callable[[int], None], Callable[[int], None]]]:
    """How many bytes to expect, and how many more have come: a bar on a terminal, else nothing."""
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=console.err, disable=not console.err.is_terminal) as progress:
        task = progress.add_task(label, total=None)
        yield (
            lambda size: progress.update(task, total=size),
            lambda size: progress.advance(task, size),
        )
