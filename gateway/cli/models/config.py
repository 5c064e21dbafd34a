"""`spillway models config`: the pbtxt of each target, from model.yaml."""

from __future__ import annotations

import argparse
from pathlib import Path

from gateway.cli import console
from gateway.cli.models import add_repository, chosen, registry, reporting
from gateway.models import configs, versions
from gateway.models.declaration import Declaration


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("config", help="write what model.yaml stands for")
    parser.add_argument("names", nargs="*", metavar="NAME", help="all when none is given")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 when it is stale")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    add_repository(parser)
    registry.add_server(parser)
    parser.set_defaults(run=run)


@reporting
def run(args: argparse.Namespace) -> int:
    changed, loaded = [], []
    for directory in chosen(args.repository, args.names):
        declared = versions.declared(directory)
        if not args.check and configs.stale(directory, declared):
            _check_batching(directory, declared)  # guard: E4.config-trial
        act = configs.stale if args.check else configs.write
        files = act(directory, declared)
        changed += files
        if files and not args.check:
            loaded += _load(args, directory)
    if args.json:
        console.put_json({"ok": not (args.check and changed), "files": [str(p) for p in changed]})
    for path in changed if not args.json else []:
        console.err.print(f"{path}: {'is stale' if args.check else 'written'}", markup=False)
    for line in loaded if not args.json else []:
        console.err.print(line, markup=False)
    if not changed and not args.json:
        console.err.print("[green]ok[/]: every file is what its model.yaml stands for")
    return int(bool(args.check and changed))


def _load(args: argparse.Namespace, directory: Path) -> list[str]:
    """Servers that run over the repository load the model anew, as far as they can be asked to."""
    there = versions.versions(directory)
    loaded = []
    for server in registry.find_servers(args)() if there else []:
        if server.accepts_versions:
            server.load(directory.name, there[-1])
            loaded.append(f"{server.url} has loaded {directory.name}")
    return loaded


def _check_batching(directory: Path, declared: Declaration) -> None:
    """Before dynamic batching is written into a config. A graph that is not there is tried when it
    is built; a server's model is tried before its first call."""
    if declared.graph is None or not versions.versions(directory):
        return
    from gateway.models import batching  # ONNX Runtime takes a second to import

    batching.check(directory, declared)
