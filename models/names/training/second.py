"""Trains the second model: `python -m training.second --out DIR --teacher FILE ...`.

It starts as the lower layers of a teacher. It learns from the labels of generated text, and on
annotated text the mean of the labels and of what the teachers say, since those annotations differ
from set to set and from hand to hand.
"""

from __future__ import annotations

import argparse
import pickle
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gateway.classify.names.model.features import HASHES, PIECES, Features
from gateway.classify.names.model.labels import LABELS
from gateway.classify.names.model.lexicon import Lexicon
from training.corpus import Example, Sources, labelled
from training.loop import Steps, examples
from training.train import vocabulary
from training.transformer import UNKNOWN_PIECE, Pair, Transformer, batched, padded

LAYERS, PIECES_WIDTH, LONGEST = 3, 128, 256
BATCH_PIECES = 3072
SOFT = 0.5  # how much the teachers' word counts on annotated text

Soft = dict[str, npt.NDArray[np.float32]]


def told_by(
    states: Sequence[dict[str, Tensor]], annotated: list[Example], rng: random.Random
) -> Soft:
    """What teachers say of each text, by the text in lower case: (words, labels)."""
    teachers = [Transformer().eval() for _ in states]
    for teacher, state in zip(teachers, states, strict=True):
        teacher.load_state_dict(state)
    found: Soft = {}
    for batch in batched(annotated, rng, LONGEST, 2 * BATCH_PIECES):
        inputs = padded([arrays for _, arrays in batch])
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            said = sum(teacher(*inputs).float().softmax(-1) for teacher in teachers)
        mean = (said / len(teachers)).numpy()
        for at, (example, (_, _, first)) in enumerate(batch):
            found[example.text.lower()] = mean[at, : len(first)]
    return found


def cropped(example: Example, rng: random.Random) -> Example:
    """A long text is read in windows: some begin in its midst."""
    words = len(example.labels)
    if words < 60 or rng.random() < 0.6:
        return example
    at = rng.randrange(words - 30)
    return replace(example, rows=example.rows[at:], labels=example.labels[at:], text="")


def forgetful(rows: npt.NDArray[np.int32], made: np.random.Generator) -> npt.NDArray[np.int32]:
    """Some names are in no lexicon, some words in no vocabulary: the surroundings must tell."""
    rows = rows.copy()
    rows[made.random(len(rows)) < 0.15, 17:19] = 0
    rows[made.random(len(rows)) < 0.05, 15:17] = 0
    lost = made.random(len(rows)) < 0.05
    rows[lost, :PIECES] = 0
    rows[lost, 0] = UNKNOWN_PIECE
    rows[:, PIECES : PIECES + HASHES] = 0
    return rows


def targets(batch: Sequence[Pair], words: int, soft: Soft) -> tuple[Tensor, Tensor]:
    """Probabilities to learn (texts, words, labels), and which words count."""
    wanted = np.zeros((len(batch), words, len(LABELS)), dtype=np.float32)
    counts = np.zeros((len(batch), words), dtype=np.float32)
    one_hot = np.eye(len(LABELS), dtype=np.float32) * 0.98 + 0.02 / len(LABELS)
    for at, (example, (_, _, first)) in enumerate(batch):
        here = one_hot[example.labels[: len(first)]]
        told = soft.get(example.text.lower())
        if told is not None:
            both = min(len(told), len(first))
            here[:both] = SOFT * told[:both] + (1 - SOFT) * here[:both]
        wanted[at, : len(first)] = here
        counts[at, : len(first)] = 1
    return torch.from_numpy(wanted), torch.from_numpy(counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--minilm", type=Path, required=True)
    parser.add_argument("--pools", type=Path, required=True)
    parser.add_argument("--teacher", type=Path, nargs="+", required=True)
    parser.add_argument("--minutes", type=float, default=28)
    parser.add_argument("--fills", type=int, default=4)
    parser.add_argument("--rate", type=float, default=2.5e-4)
    parser.add_argument("--seed", type=int, default=13)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    forgets = np.random.default_rng(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(2)
    pools = pickle.loads(args.pools.read_bytes())
    features = Features(vocabulary(args.minilm), Lexicon.load(args.out / "lexicon.npz"))
    sources = Sources.read(args.data, args.fills)
    print(f"{len(sources.templates)} templates, {len(sources.real)} annotated texts", flush=True)
    states = [torch.load(path) for path in args.teacher]
    asked = time.time()
    soft = told_by(states, [e for s in sources.real if (e := labelled(s, features))], rng)
    print(f"{len(soft)} texts told by the teachers in {time.time() - asked:.0f} s", flush=True)
    model = Transformer(LAYERS, PIECES_WIDTH, LONGEST, dropout=0.1)
    model.start_from(states[-1])
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters", flush=True)
    steps = Steps(model, args.rate, warm_up=80, least=0.01)
    ends = time.time() + args.minutes * 60
    while time.time() < ends:
        made = [cropped(e, rng) for e in examples(sources, pools, features, rng)]
        made = [replace(e, rows=forgetful(e.rows, forgets)) for e in made]
        losses = []
        model.train()
        for batch in batched(made, rng, LONGEST, BATCH_PIECES):
            left = (ends - time.time()) / (args.minutes * 60)
            if left <= 0:
                break
            inputs = padded([arrays for _, arrays in batch])
            wanted, counts = targets(batch, inputs[2].shape[1], soft)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = model(*inputs)
            each = -(wanted * logits.float().log_softmax(-1)).sum(-1)
            losses.append(steps.take((each * counts).sum() / counts.sum(), 1 - left))
        torch.save(model.state_dict(), args.out / "second.pt")
        print(f"{steps.done} steps, loss of this round {np.mean(losses):.4f}", flush=True)


if __name__ == "__main__":
    main()
