"""`spillway models`: what is in the model repository, and how it gets there.

Each module beside this one has `register(subparsers)`, as the commands above it do.
"""

from __future__ import annotations

import argparse
import functools
import importlib
from collections.abc import Callable
from pathlib import Path

from gateway.cli import console
from gateway.config import ConfigError
from gateway.models import declaration
from gateway.models.failures import ModelCommandFailed, WrongModel

SUBCOMMANDS = (
    "build", "quantize", "verify", "profile", "search", "ls", "config",
    "pull", "push", "warm", "rollback",
)  # fmt: skip


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "models", help="build, check and list the models on the premises"
    )
    inner = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in SUBCOMMANDS:
        importlib.import_module(f"gateway.cli.models.{name}").register(inner)


def add_repository(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--repository", type=Path, default=Path("models"), help="the model repository (./models)"
    )


def chosen(repository: Path, names: list[str]) -> list[Path]:
    """The directories of the named models, of all that have a model.yaml when none is named.
    Raises ConfigError."""
    if not names:
        return [path.parent for path in declaration.declared(repository)]
    for name in names:
        if not (repository / name / declaration.FILE).exists():
            there = ", ".join(p.parent.name for p in declaration.declared(repository)) or "none"
            raise ConfigError(
                f"{repository / name / declaration.FILE}: is not there; with one are: {there}"
            )
    return [repository / name for name in names]


def reporting(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """A command whose failures are told in a line: exit 2 for what was given, else 1."""

    @functools.wraps(run)
    def telling(args: argparse.Namespace) -> int:
        try:
            return run(args)
        except ModelCommandFailed as exc:
            console.fail(str(exc))
            return 2 if isinstance(exc, WrongModel) else 1

    return telling
