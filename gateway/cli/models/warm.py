"""`spillway models warm`: the declared canary at each declared batch size, before callers come."""

from __future__ import annotations

import argparse

from gateway.cli import console
from gateway.cli.models import chosen, registry
from gateway.models import versions
from gateway.models.registry import RegistryError
from gateway.models.registry.warming import warm


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("warm", help="send the canary at each declared batch size")
    registry.add_model(parser)
    registry.add_server(parser)
    parser.add_argument("--version", type=int, metavar="V", help="the one that serves if not")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    (directory,) = chosen(args.repository, [args.name])
    declared = versions.declared(directory, args.version)
    try:
        servers = registry.find_servers(args)()
        if not servers:
            raise RegistryError(
                f"no server runs over {args.repository} on this machine; start the gateway, or "
                "name a Triton with --server"
            )
        results = {server.url: warm(server, declared, args.version) for server in servers}
    except RegistryError as exc:
        return registry.failed(exc, args)
    if args.json:
        times = {
            url: [{"rows": w.rows, "first_ms": w.first_ms, "then_ms": w.then_ms} for w in warmed]
            for url, warmed in results.items()
        }
        console.put_json({"ok": True, "model": args.name, "servers": times})
        return 0
    for url, warmed in results.items():
        for one in warmed:
            console.err.print(
                f"{url}: {one.rows or 'no'} rows: {one.first_ms:.1f} ms, then {one.then_ms:.1f} ms",
                markup=False,
            )
    return 0
