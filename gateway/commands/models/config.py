"""`spillway models config`: the pbtxt of each target, from model.yaml."""

from __future__ import annotations

import argparse

from gateway.commands import console
from gateway.commands.models import add_repository, chosen
from gateway.models import configs, declaration


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("config", help="write what model.yaml stands for")
    parser.add_argument("names", nargs="*", metavar="NAME", help="all when none is given")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 when it is stale")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    add_repository(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    act = configs.stale if args.check else configs.write
    changed = [
        path
        for directory in chosen(args.repository, args.names)
        for path in act(directory, declaration.load(directory / declaration.FILE))
    ]
    if args.json:
        console.put_json({"ok": not (args.check and changed), "files": [str(p) for p in changed]})
    for path in changed if not args.json else []:
        console.err.print(f"{path}: {'is stale' if args.check else 'written'}", markup=False)
    if not changed and not args.json:
        console.err.print("[green]ok[/]: every file is what its model.yaml stands for")
    return int(bool(args.check and changed))
