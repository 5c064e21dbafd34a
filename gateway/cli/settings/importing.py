"""`spillway import litellm FILE`: another gateway's settings as a spillway.yaml."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from gateway import config
from gateway.app.imports import Imported
from gateway.app.imports.litellm import reader
from gateway.cli import console
from gateway.config import ConfigError

_MOST_BYTES = 4_000_000


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("import", help="make a settings file of another gateway's")
    parser.add_argument(
        "kind", choices=["litellm"], help="whose: the config.yaml of LiteLLM's proxy"
    )
    parser.add_argument("file", type=Path, help="its settings, which are only read")
    parser.add_argument("-o", "--output", type=Path, help="write it there; by default to stdout")
    parser.add_argument(
        "--onprem", action="append", default=[], metavar="HOST",
        help="this host stands on the premises, so restricted calls may go there",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="write over a file that is there")
    parser.add_argument("--json", action="store_true", help="settings, notes and secrets as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        imported = reader.imported(_read(args.file), args.onprem)
    except ConfigError as exc:
        raise ConfigError(f"{args.file}: {exc}") from None
    text = written(imported, args.file.name)
    _check(text, imported)
    if args.json:
        console.put_json(imported.report())
    elif args.output is None:
        sys.stdout.write(text)
    else:
        _write(args.output, text, args.force)
    _print_imported(imported, args.output)
    return 0


def written(imported: Imported, source: str) -> str:
    """The settings file, with what somebody has to look at in its head."""
    lines = [f"# Made of {source} by `spillway import`. Look at these, then delete them:"]
    lines += [f"#   {n.weight.value}: {n.where}: {n.text}" for n in imported.notes]
    if not imported.notes:
        lines = [f"# Made of {source} by `spillway import`."]
    lines += [f"# ${{{name}}}: of {where}" for name, where in sorted(imported.secrets.items())]
    body = yaml.safe_dump(imported.document, sort_keys=False, allow_unicode=True, width=100)
    return "\n".join(" ".join(line.split("\n")) for line in lines) + "\n\n" + body


def _read(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
    except OSError as exc:
        raise ConfigError(f"cannot be read: {exc.strerror}") from exc
    if len(raw) > _MOST_BYTES:
        raise ConfigError(f"is larger than {_MOST_BYTES // 1_000_000} MB")
    try:
        document = yaml.safe_load(raw)
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        raise ConfigError(f"line {line}: not valid YAML: {exc.problem}") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise ConfigError("not valid YAML") from None
    if not isinstance(document, dict):
        raise ConfigError("must be a mapping with a model_list")
    return document


def _check(text: str, imported: Imported) -> None:
    """What is written must be taken by `spillway check`. Its secrets need not be there yet."""
    with tempfile.NamedTemporaryFile("w") as placeholder:
        placeholder.write("placeholder")
        placeholder.flush()
        for name in imported.secrets:
            text = text.replace(f"${{{name}}}", f"${{file:{placeholder.name}}}")
        config.parse(text, "what was made of it")


def _write(path: Path, text: str, force: bool) -> None:
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{path}: is there already; name another, or say --force") from None
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be written: {exc.strerror}") from exc


def _print_imported(imported: Imported, output: Path | None) -> None:
    for note in imported.notes:
        style = "yellow" if note.weight.value == "check" else "dim"
        console.err.print(f"[{style}]{note.weight.value}:[/]", end=" ")
        console.err.print(f"{note.where}: {note.text}", markup=False)
    models, endpoints = len(imported.document["models"]), len(imported.document["endpoints"])
    summary = f"{models} models at {endpoints} endpoints"
    if imported.secrets:
        summary += f"; set {', '.join(sorted(imported.secrets))}"
    console.err.print(summary, markup=False)
    if output is not None:
        console.err.print(f"then: spillway check {output}", markup=False)
