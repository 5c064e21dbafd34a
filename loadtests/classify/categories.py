"""What categories by example catch and cost: `python -m loadtests.classify.categories [FILE ...]`.

For each made-up category (`category_texts.py`) and number of examples, over three drawings of them:
unseen sentences that are caught, alone and amid a chat of other people's questions; prompts without
any of it that are flagged (`prompts.jsonl`, English ones), and recorded chats (FILE: JSONL whose
`body` has `messages`). Then the processor time of a recorded chat, by examples and by a table of
100,000 values, on one thread and with nothing remembered of earlier turns.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from gateway.classify import ScannerUnfit
from gateway.classify.categories import examples
from gateway.classify.categories.chunks import spans
from gateway.classify.categories.embeddings import EmbeddingModel, LocalEmbeddings, Vectors
from gateway.classify.categories.matching import Category, Harmless, Matcher, by_examples
from gateway.classify.categories.piece_vectors import PieceVectors
from gateway.classify.categories.values import ValueTable, new_key, written
from gateway.classify.conversations.memory import BETWEEN
from loadtests.classify.category_texts import TEXTS, chats

COUNTS, SEEDS, UNSEEN, VALUES = (5, 20, 50), (1, 2, 3), 60, 100_000


class RememberedModel:
    """Vectors of sentences that were embedded before, so that rules alone are made anew."""

    def __init__(self, model: EmbeddingModel) -> None:
        self._model = model
        self._known: dict[str, Vectors] = {}

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        if new := [text for text in dict.fromkeys(texts) if text not in self._known]:
            self._known.update(zip(new, self._model.embed(new), strict=True))
        return np.stack([self._known[text] for text in texts])


def prompts() -> list[str]:
    lines = Path(__file__).with_name("prompts.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [r["text"] for r in rows if r["lang"] == "en" and r["benign_class"] != "contains_pii"]


def recorded(path: Path, most: int) -> list[str]:
    """The texts of so many chats, as the gateway joins them."""
    calls: list[str] = []
    with path.open() as lines:
        for line in lines:
            contents = [m.get("content") for m in json.loads(line)["body"].get("messages", ())]
            calls.append(BETWEEN.join(c for c in contents if isinstance(c, str)))
            if len(calls) == most:
                break
    return calls


def share(matcher: Matcher, texts: Sequence[str]) -> float:
    return sum(bool(matcher.findings(text)) for text in texts) / len(texts)


def accuracy(
    model: EmbeddingModel,
    pieces: EmbeddingModel,
    calls: dict[str, list[str]],
    counterexamples: Sequence[str],
    *,
    gated: bool,
) -> None:
    kinds = ["sentences", "in chats", "prompts", *calls]
    print(f"{'category':20} examples  " + "  ".join(f"{kind:>10}" for kind in kinds))
    clean = prompts()
    harmless = Harmless.embedded([*examples.benign(), *counterexamples], model, pieces)
    means: dict[int, list[list[float]]] = {}
    for name, texts in TEXTS.items():
        unseen = texts.draw(UNSEEN, 7, unseen=True)
        sets = [unseen, list(chats(unseen, clean, 5)), clean, *calls.values()]
        for count in COUNTS:
            rows: list[list[float]] = []
            for seed in SEEDS:
                try:
                    drawn = texts.draw(count, seed)
                    category = by_examples(name, drawn, harmless, None, model, pieces)
                except ScannerUnfit as exc:
                    print(f"drawing {seed}: {exc}")
                    continue
                matcher = Matcher([category], model, pieces if gated else None)
                rows.append([share(matcher, some) for some in sets])
            if rows:
                mean = [statistics.mean(column) for column in zip(*rows, strict=True)]
                means.setdefault(count, []).append(mean)
                print(_row(name, count, mean), flush=True)
    for count, its in means.items():
        print(_row("mean", count, [statistics.mean(c) for c in zip(*its, strict=True)]))


def _row(name: str, count: int, shares: Sequence[float]) -> str:
    return f"{name:20} {count:8}  " + "  ".join(f"{100 * one:8.1f} %" for one in shares)


def people(count: int) -> list[str]:
    rng = random.Random(11)
    parts = [
        "an",
        "ber",
        "cor",
        "da",
        "el",
        "fi",
        "gor",
        "hu",
        "ina",
        "jor",
        "ka",
        "lem",
        "mo",
        "nis",
        "ola",
        "per",
        "qui",
        "ros",
        "sam",
        "tor",
        "ul",
        "vik",
    ]
    return [" ".join("".join(rng.choices(parts, k=3)) for _ in range(2)) for _ in range(count)]


def table() -> ValueTable:
    with tempfile.TemporaryDirectory() as directory:
        path, key_path = Path(directory, "values"), Path(directory, "key")
        key_path.write_text(new_key())
        path.write_bytes(written(people(VALUES), bytes.fromhex(key_path.read_text()))[0])
        started_s = time.process_time()
        made = ValueTable.load(path, key_path)
        print(
            f"a table of {VALUES} values: loaded in {time.process_time() - started_s:.2f} s of CPU"
        )
    return made


def cost(model: LocalEmbeddings, pieces: PieceVectors, calls: dict[str, list[str]]) -> None:
    harmless = Harmless.embedded(examples.benign(), model, pieces)
    categories = [
        by_examples(name, texts.draw(20, 1), harmless, None, model, pieces)
        for name, texts in TEXTS.items()
    ]
    matchers = {
        "examples, by the model alone": Matcher(categories[:1], model),
        "examples": Matcher(categories[:1], model, pieces),
        "examples of three categories": Matcher(categories[:3], model, pieces),
        "table": Matcher([Category("people", table())], None),
        "nothing": Matcher([], None),  # the other forms of the texts, which names are read in, too
    }
    for kind, some in calls.items():
        size = statistics.mean(map(len, some)) / 1000
        for by, matcher in matchers.items():
            times: list[float] = []
            for text in some:
                started_s = time.process_time()
                matcher.findings(text)
                times.append(1e3 * (time.process_time() - started_s))
            median, mean = statistics.median(times), statistics.mean(times)
            print(f"{kind} ({size:.1f} KB), {by}: {median:.2f} ms median, {mean:.2f} ms mean")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recorded", type=Path, nargs="*", metavar="FILE")
    parser.add_argument("--model", type=Path, default=Path("models/minilm/1"))
    parser.add_argument(
        "--counterexamples", type=int, default=0, metavar="N",
        help="sentences of other chats of each file, as an operator's own harmless texts",
    )  # fmt: skip
    parser.add_argument("--calls", type=int, default=60, help="of each file")
    args = parser.parse_args()
    calls = {path.stem: recorded(path, args.calls) for path in args.recorded}
    counterexamples: list[str] = []
    for path in args.recorded:
        others = recorded(path, 10 * args.calls)[args.calls :]
        parts = [text[start:end] for text in others for start, end in spans(text)]
        counterexamples += random.Random(3).sample(parts, args.counterexamples)
    model = LocalEmbeddings(args.model)
    pieces = PieceVectors(model, examples.benign())
    known = RememberedModel(model), RememberedModel(pieces)
    for gated in (False, True):
        print("with the gate" if gated else "by the model alone")
        accuracy(*known, calls, counterexamples, gated=gated)
    cost(model, pieces, calls)


if __name__ == "__main__":
    main()
