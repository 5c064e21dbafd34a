"""How much faster a model in 8 bits is than in 32, on one thread of this machine.

    python -m loadtests.models.int8 [--model minilm] [--rounds 5] [--json]

Both run in turns on the sample of the model's usual size. Of each round the run of each that was
disturbed least counts, by its thread's own time: who shares the core's caches slows 8 bits more
than 32. How much it is depends on the processor: VNNI multiplies 8 bits, others only load less.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from gateway.models import declaration
from gateway.models.sessions import Session
from gateway.models.variants import quantize

_LAPS = 15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repository", type=Path, default=Path("models"))
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / args.model
        shutil.copytree(args.repository / args.model, directory)
        declared = declaration.load(directory / declaration.FILE)
        method = declared.quantization.method
        made = quantize.quantize(directory, declared, method, lambda line: None)
        before = directory / "1" / "model.onnx"
        ratios = [quicker(before, made.file, declared) for _ in range(args.rounds)]
    found = {
        "times_faster": statistics.median(ratios), "least": min(ratios), "most": max(ratios),
        "size_cut": made.size_cut, "after": made.after,
    }  # fmt: skip
    if args.json:
        print(json.dumps(found))
        return
    print(
        f"{args.model} in 8 bits: {found['times_faster']:.2f} times faster "
        f"({found['least']:.2f} to {found['most']:.2f}), {found['size_cut']:.1%} smaller, "
        f"{found['after']:.4f} near"
    )


def quicker(before: Path, after: Path, declared: declaration.Declaration) -> float:
    sessions = Session(before, threads=1), Session(after, threads=1)
    sample = quantize.usual_sample(declared)
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(_LAPS):
        for session, laps in zip(sessions, taken, strict=True):
            start = time.thread_time()
            session.run(sample.feed)
            laps.append(time.thread_time() - start)
    return min(taken[0]) / min(taken[1])


if __name__ == "__main__":
    main()
