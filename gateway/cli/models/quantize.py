"""`spillway models quantize`: weights in 8 bits, kept where the accuracy gate allows it."""

from __future__ import annotations

import argparse

from gateway.cli import console
from gateway.cli.models import add_repository, chosen, told
from gateway.models import declaration


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("quantize", help="make the int8 variant of a model")
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--method",
        choices=("dynamic", "static"),
        help="instead of model.yaml's quantization.method",
    )
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    add_repository(parser)
    parser.set_defaults(run=run)


@told
def run(args: argparse.Namespace) -> int:
    from gateway.models.variants import quantize  # ONNX Runtime takes a second to import

    (directory,) = chosen(args.repository, [args.name])
    declared = declaration.load(directory / declaration.FILE)
    method = args.method or declared.quantization.method
    with console.progress() as tell:
        found = quantize.quantize(directory, declared, method, tell)
    if args.json:
        console.put_json(found.as_json())
        return 0
    console.err.print(f"[green]ok[/]: {found.file}", highlight=False)
    for line in (
        f"size      {found.before_bytes:,} to {found.after_bytes:,} bytes, "
        f"{found.size_cut:.1%} less",
        f"{found.metric}  {found.before:.4f} to {found.after:.4f} on {found.rows} rows, "
        f"loss {found.loss:.4f} of {found.largest_loss} allowed",
        f"latency   {found.before_ms:.2f} to {found.after_ms:.2f} ms, "
        f"{found.speedup:.2f} times faster ({found.timed_on}, {quantize.THREADS} thread, "
        f"against fp32 as ONNX Runtime optimises it)",
    ):
        console.err.print("  " + line, markup=False)
    return 0
