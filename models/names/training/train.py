"""Trains the first model: `python -m training.train --out DIR [--data DIR] [--rounds N]`."""

from __future__ import annotations

import argparse
import pickle
import random
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from gateway.classify.names.model.features import COLUMNS, Features
from gateway.classify.names.model.lexicon import Lexicon
from training.corpus import Example, Sources
from training.loop import Steps, examples
from training.pools import Pools
from training.student import Student

BATCH_WORDS = 4096


def vocabulary(minilm: Path) -> dict[str, int]:
    lines = (minilm / "vocab.txt").read_text("utf-8").splitlines()
    return {piece: at for at, piece in enumerate(lines)}


def reduced_pieces(minilm: Path, width: int) -> Tensor:
    """MiniLM's word-piece embeddings on their principal components; row 0 (padding) is zero."""
    from safetensors.torch import load_file

    weights = load_file(minilm / "model.safetensors")["embeddings.word_embeddings.weight"].float()
    centred = weights - weights.mean(0)
    _, _, axes = torch.linalg.svd(centred, full_matrices=False)
    found = centred @ axes[:width].T
    found = found / found.std()
    found[0] = 0
    return found * 0.5


def batches(examples: list[Example], rng: random.Random) -> list[list[Example]]:
    order = sorted(examples, key=lambda e: len(e.labels) + rng.random() * 4)
    made: list[list[Example]] = [[]]
    for example in order:
        longest = max(len(example.labels), *(len(e.labels) for e in made[-1]), 1)
        if made[-1] and longest * (len(made[-1]) + 1) > BATCH_WORDS:
            made.append([])
        made[-1].append(example)
    rng.shuffle(made)
    return made


def padded(batch: list[Example]) -> tuple[Tensor, Tensor]:
    longest = max(len(e.labels) for e in batch)
    rows = np.zeros((len(batch), longest, COLUMNS), dtype=np.int64)
    labels = np.full((len(batch), longest), -100, dtype=np.int64)
    for at, example in enumerate(batch):
        rows[at, : len(example.labels)] = example.rows
        labels[at, : len(example.labels)] = example.labels
    return torch.from_numpy(rows), torch.from_numpy(labels)


def forgetful(rows: Tensor, generator: torch.Generator) -> Tensor:
    """Some names are in no lexicon, some words in no table: the surroundings must tell."""
    rows = rows.clone()
    for columns, share in (((17, 18), 0.15), ((15, 16), 0.05), ((4,), 0.15), ((0, 1, 2, 3), 0.05)):
        lost = torch.rand(rows.shape[:2], generator=generator) < share
        for column in columns:
            rows[:, :, column] = rows[:, :, column].masked_fill(lost, 0)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--minilm", type=Path, required=True)
    parser.add_argument("--pools", type=Path)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--fills", type=int, default=8)
    parser.add_argument("--width", type=int, default=224)
    parser.add_argument("--pieces", type=int, default=48)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--start", type=Path)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(2)
    if args.pools and args.pools.exists():
        pools = pickle.loads(args.pools.read_bytes())
    else:
        pools = Pools.build(args.seed)
    features = Features(vocabulary(args.minilm), Lexicon.load(args.out / "lexicon.npz"))
    sources = Sources.read(args.data, args.fills)
    print(f"{len(sources.templates)} templates, {len(sources.real)} annotated texts", flush=True)
    model = Student(reduced_pieces(args.minilm, args.pieces), args.width)
    if args.start:
        model.load_state_dict(torch.load(args.start))
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters", flush=True)
    steps = Steps(model, args.rate, warm_up=100, least=0.03)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.02)
    forgets = torch.Generator().manual_seed(args.seed)
    for done in range(args.rounds):
        made = batches(list(examples(sources, pools, features, rng)), rng)
        model.train()
        losses = []
        for at, batch in enumerate(made):
            rows, labels = padded(batch)
            loss = loss_of(model(forgetful(rows, forgets)).flatten(0, 1), labels.flatten())
            losses.append(steps.take(loss, (done + at / len(made)) / args.rounds))
        print(f"round {done + 1}: {len(made)} batches, loss {np.mean(losses):.4f}", flush=True)
        torch.save(model.state_dict(), args.out / "student.pt")


if __name__ == "__main__":
    main()
