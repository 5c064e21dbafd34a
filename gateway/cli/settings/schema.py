"""`spillway schema`: the JSON schema of the settings file, for editors."""

from __future__ import annotations

import argparse

from gateway import config
from gateway.cli import console


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "schema",
        help="print the JSON schema of the settings file",
        description="For editors that complete and check YAML: put the output into a file and "
        "name it in the first line of yours, `# yaml-language-server: $schema=FILE`.",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    console.put_json(config.schema())
    return 0
