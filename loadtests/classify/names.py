"""What looking for names costs: `python -m loadtests.classify.names [--json]`.

Text of 32, 128 and 512 word pieces (MiniLM's, as other taggers count), one thread; the least and
the median of the runs, the sizes interleaved, so that all of them share the machine's moods.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time

from gateway.classify.names.features import Pieces
from gateway.classify.names.tagger import WEIGHTS, Tagger
from gateway.classify.names.words import cut

_TEXT = (
    "Dear colleagues, the quarterly figures are in and they look better than we feared. Could "
    "somebody from the hospital's billing department check the second table before Friday? "
    "Margaret Whitfield asked for it, and so did the auditors in Leeds. If the server is slow, "
    "restart the queue with `systemctl restart worker` and try again; the log should say "
    '{"status": "ok", "retries": 0}. Please send parcels to 48 Maple Street, Springfield. '
)
SIZES = (32, 128, 512)


def texts() -> dict[int, str]:
    """The beginning of the text that has so many pieces."""
    vocabulary = (WEIGHTS / "pieces.txt").read_text("utf-8").split("\n")
    pieces = Pieces({piece: at for at, piece in enumerate(vocabulary)})
    long = _TEXT * 8
    found, total = {}, 0
    words = cut(long)
    for word, end in zip(words.words, words.ends, strict=True):
        total += max(1, len(pieces.of(word)))
        for size in SIZES:
            if total >= size and size not in found:
                found[size] = long[:end]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    started = time.perf_counter()
    tagger = Tagger.load()
    loaded_ms = (time.perf_counter() - started) * 1e3
    samples = texts()
    took: dict[int, list[float]] = {size: [] for size in samples}
    for _ in range(args.runs + 3):
        for size, text in samples.items():
            began = time.perf_counter()
            tagger.find([text])
            took[size].append((time.perf_counter() - began) * 1e3)
    rows = [
        {
            "tokens": size,
            "words": len(cut(samples[size])),
            "least_ms": round(min(times[3:]), 2),
            "median_ms": round(statistics.median(times[3:]), 2),
        }
        for size, times in took.items()
    ]
    weights = {p.name: p.stat().st_size for p in sorted(WEIGHTS.iterdir()) if p.is_file()}
    if args.json:
        print(json.dumps({"rows": rows, "load_ms": round(loaded_ms), "weights_bytes": weights}))
        return 0
    for row in rows:
        print(
            "{tokens:4} tokens, {words:4} words: {least_ms} ms, median {median_ms} ms".format(**row)
        )
    print(f"loaded in {loaded_ms:.0f} ms; weights {sum(weights.values()) / 1e6:.1f} MB: {weights}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
