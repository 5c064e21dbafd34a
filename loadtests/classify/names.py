"""What looking for names costs: `python -m loadtests.classify.names [--data DIR] [--json]`.

Text of 32, 128 and 512 word pieces (MiniLM's, as other taggers count), one thread; the least and
the median of the runs, the first model alone and both, interleaved, so that all of them share the
machine's moods. The second model is asked for all of the text here, which is the most that it can
cost. With `--data`, what both cost on the clean prompts in DIR (files as
`loadtests.classify.accuracy` reads them): the second model for the few that it is asked about.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gateway.classify.names.model.card import WEIGHTS, card
from gateway.classify.names.model.features import WordPieces
from gateway.classify.names.model.second import (
    DoubtThresholds,
    OnnxSecond,
    Rows,
    SecondModel,
    SecondReading,
    piece_counts,
)
from gateway.classify.names.model.tagger import OnnxModel, Tagger, load_features
from gateway.classify.names.model.words import cut

_TEXT = (
    "Dear colleagues, the quarterly figures are in and they look better than we feared. Could "
    "somebody from the hospital's billing department check the second table before Friday? "
    "Margaret Whitfield asked for it, and so did the auditors in Leeds. If the server is slow, "
    "restart the queue with `systemctl restart worker` and try again; the log should say "
    '{"status": "ok", "retries": 0}. Please send parcels to 48 Maple Street, Springfield. '
)
SIZES = (32, 128, 512)
_WARM_UP = 3


def texts() -> dict[int, str]:
    """The beginning of the text that has so many pieces."""
    vocabulary = (WEIGHTS / "pieces.txt").read_text("utf-8").split("\n")
    pieces = WordPieces({piece: at for at, piece in enumerate(vocabulary)})
    long = _TEXT * 8
    found, total = {}, 0
    words = cut(long)
    for word, end in zip(words.words, words.ends, strict=True):
        total += max(1, len(pieces.tokenize(word)))
        for size in SIZES:
            if total >= size and size not in found:
                found[size] = long[:end]
    return found


class Counting:
    """The second model, and how many of its runs there were."""

    def __init__(self, model: SecondModel) -> None:
        self._model = model
        self.runs = 0

    def __call__(self, rows: Rows) -> npt.NDArray[np.float32]:
        self.runs += 1
        return self._model(rows)


def taggers() -> dict[str, Tagger]:
    features, first = load_features(), OnnxModel(WEIGHTS / "first.onnx")
    always = SecondReading.load(
        WEIGHTS / "second.onnx", DoubtThresholds(least=-1.0, sure=2.0, sure_full=2.0, share=1.0)
    )
    return {"first model": Tagger(features, first), "both": Tagger(features, first, always)}


def sizes(runs: int) -> list[dict[str, object]]:
    samples = texts()
    found = taggers()
    took: dict[tuple[str, int], list[float]] = {
        (name, size): [] for name in found for size in samples
    }
    for _ in range(runs + _WARM_UP):
        for (name, size), times in took.items():
            times.append(took_ms(found[name], samples[size]))
    return [
        {
            "models": name,
            "tokens": size,
            "words": len(cut(samples[size])),
            "least_ms": round(min(times[_WARM_UP:]), 2),
            "median_ms": round(statistics.median(times[_WARM_UP:]), 2),
        }
        for (name, size), times in took.items()
    ]


def took_ms(tagger: Tagger, text: str) -> float:
    began = time.perf_counter()
    tagger.find([text])
    return (time.perf_counter() - began) * 1e3


def clean_prompts(folder: Path) -> list[str]:
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            record = json.loads(line)
            if record.get("benign_class") == "none" and record.get("binary") != "base64":
                found.append(record["text"])
    return found


def on_clean_prompts(prompts: list[str], runs: int) -> dict[str, float]:
    """The least time of each prompt's runs; a prompt is one call."""
    doubt = DoubtThresholds(**card()["doubt"])
    again = Counting(OnnxSecond(WEIGHTS / "second.onnx"))
    features = load_features()
    tagger = Tagger(features, OnnxModel(WEIGHTS / "first.onnx"), SecondReading(again, doubt))
    total_ms, pieces, asked = 0.0, 0, 0
    for prompt in prompts:
        tagger.find([prompt])
        again.runs = 0
        total_ms += min(took_ms(tagger, prompt) for _ in range(runs))
        asked += again.runs > 0
        words = cut(prompt)
        pieces += int(piece_counts(features.rows(words)).sum()) if len(words) else 0
    return {
        "prompts": len(prompts),
        "pieces": round(pieces / len(prompts)),
        "mean_ms": round(total_ms / len(prompts), 2),
        "mean_ms_128": round(total_ms / pieces * 128, 2),
        "second_asked": round(asked / len(prompts), 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--data", type=Path, help="folder of *.jsonl")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    started = time.perf_counter()
    Tagger.load()
    loaded_ms = round((time.perf_counter() - started) * 1e3)
    rows = sizes(args.runs)
    weights = {p.name: p.stat().st_size for p in sorted(WEIGHTS.iterdir()) if p.is_file()}
    prompts = clean_prompts(args.data) if args.data else []
    clean = on_clean_prompts(prompts, 5) if prompts else None
    if args.json:
        told = {"rows": rows, "clean": clean, "load_ms": loaded_ms, "weights_bytes": weights}
        print(json.dumps(told))
        return 0
    for row in rows:
        print(
            "{models:11}, {tokens:4} tokens, {words:4} words: {least_ms} ms, "
            "median {median_ms} ms".format(**row)
        )
    if clean:
        print(
            "{prompts} clean prompts of {pieces} tokens on average: {mean_ms} ms each, "
            "{mean_ms_128} ms for 128 tokens".format(**clean)
        )
        print(f"the second model is asked in {clean['second_asked']:.1%} of them")
    print(f"loaded in {loaded_ms} ms; weights {sum(weights.values()) / 1e6:.1f} MB: {weights}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
