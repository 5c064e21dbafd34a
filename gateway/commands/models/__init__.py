"""`spillway models`: what is in the model repository, and how it gets there.

Each module beside this one has `register(subparsers)`, as the commands above it do.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

SUBCOMMANDS = ("config",)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "models", help="build, check and list the models on the premises"
    )
    inner = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in SUBCOMMANDS:
        importlib.import_module(f"gateway.commands.models.{name}").register(inner)


def add_repository(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--repository", type=Path, default=Path("models"), help="the model repository (./models)"
    )


def chosen(repository: Path, names: list[str]) -> list[Path]:
    """The directories of the named models, of all that have a model.yaml when none is named.
    Raises ConfigError."""
    from gateway.config import ConfigError  # beside its only use
    from gateway.models import declaration

    if not names:
        return [path.parent for path in declaration.declared(repository)]
    for name in names:
        if not (repository / name / declaration.FILE).exists():
            there = ", ".join(p.parent.name for p in declaration.declared(repository)) or "none"
            raise ConfigError(
                f"{repository / name / declaration.FILE}: is not there; with one are: {there}"
            )
    return [repository / name for name in names]
