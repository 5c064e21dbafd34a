"""`spillway models verify`: every variant against the reference, and the golden file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gateway.cli import console
from gateway.cli.models import add_repository, chosen, reporting
from gateway.models import versions
from gateway.models.failures import WrongModel

if TYPE_CHECKING:
    from gateway.models.variants import verify


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("verify", help="compare every variant with the fp32 reference")
    parser.add_argument("names", nargs="*", metavar="NAME", help="all when none is given")
    parser.add_argument("--update", action="store_true", help="write the golden files anew")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    add_repository(parser)
    parser.set_defaults(run=run)


@reporting
def run(args: argparse.Namespace) -> int:
    from gateway.models.variants import verify  # ONNX Runtime takes a second to import

    results = []
    with console.progress() as report:
        for directory in chosen(args.repository, args.names):
            declared = versions.declared(directory)
            try:
                results.append(verify.verify(directory, declared, report, args.update))
            except WrongModel as exc:
                results.append(verify.VariantVerification(declared.name, wrong=[str(exc)]))
    if args.json:
        console.put_json(
            {"ok": all(v.ok for v in results), "models": [v.as_json() for v in results]}
        )
    for model in results if not args.json else []:
        _print(model)
    return int(not all(model.ok for model in results))


def _print(model: verify.VariantVerification) -> None:
    if model.skipped:
        console.err.print(f"[dim]-[/] {model.model}: {model.skipped}")
    for line in model.wrong:
        console.err.print("[red]✗[/] ", end="")
        console.err.print(f"{model.model}: {line}", markup=False)
    for variant in model.variants:
        mark = "[dim]-[/]" if variant.skipped else "[green]✓[/]" if variant.ok else "[red]✗[/]"
        console.err.print(f"{mark} ", end="")
        result_line = variant.skipped or f"off by {variant.off}, {variant.tolerance:g} allowed"
        if variant.rows is not None:
            result_line += f"; rows are {variant.rows}"
        console.err.print(f"{model.model}: {variant.variant}: {result_line}", markup=False)
