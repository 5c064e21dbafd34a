"""`spillway models quantize`: weights in 8 bits, kept where the accuracy gate allows it."""

from __future__ import annotations

import argparse

from gateway.cli import console
from gateway.cli.models import add_repository, chosen, reporting
from gateway.models import versions


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


@reporting
def run(args: argparse.Namespace) -> int:
    from gateway.models.variants import quantize  # ONNX Runtime takes a second to import

    (directory,) = chosen(args.repository, [args.name])
    declared = versions.declared(directory)
    method = args.method or declared.quantization.method
    with console.progress() as report:
        quantized = quantize.quantize(directory, declared, method, report)
    if args.json:
        console.put_json(quantized.as_json())
        return 0
    console.err.print(f"[green]ok[/]: {quantized.file}", highlight=False)
    for line in (
        f"size      {quantized.before_bytes:,} to {quantized.after_bytes:,} bytes, "
        f"{quantized.size_cut:.1%} less",
        f"{quantized.metric}  {quantized.before:.4f} to {quantized.after:.4f} "
        f"on {quantized.rows} rows, loss {quantized.loss:.4f} of {quantized.largest_loss} allowed",
        f"latency   {quantized.before_ms:.2f} to {quantized.after_ms:.2f} ms, "
        f"{quantized.speedup:.2f} times faster ({quantized.timed_on}, {quantize.THREADS} thread, "
        f"against fp32 as ONNX Runtime optimises it)",
    ):
        console.err.print("  " + line, markup=False)
    return 0
