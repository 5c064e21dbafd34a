"""Trains the teacher: `python -m training.teacher --out DIR ...`.

MiniLM-L6 (Apache-2.0), fine-tuned. It never ships; the second model begins as its lower layers and
learns from what it says.
"""

from __future__ import annotations

import argparse
import pickle
import random
from pathlib import Path

import numpy as np
import torch
from torch import nn

from gateway.classify.names.model.features import Features
from gateway.classify.names.model.lexicon import Lexicon
from training.corpus import Sources
from training.loop import Steps, examples
from training.train import vocabulary
from training.transformer import Transformer, batched, padded

LONGEST, BATCH_PIECES = 384, 3072


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--minilm", type=Path, required=True)
    parser.add_argument("--pools", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--fills", type=int, default=4)
    parser.add_argument("--rate", type=float, default=1.5e-4)
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    torch.manual_seed(args.seed)
    pools = pickle.loads(args.pools.read_bytes())
    features = Features(vocabulary(args.minilm), Lexicon.load(args.out / "lexicon.npz"))
    sources = Sources.read(args.data, args.fills)
    model = Transformer.of_minilm(args.minilm)
    steps = Steps(model, args.rate, warm_up=80, least=0.02)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.02)
    for done in range(args.rounds):
        made = batched(list(examples(sources, pools, features, rng)), rng, LONGEST, BATCH_PIECES)
        losses = []
        model.train()
        for at, batch in enumerate(made):
            inputs = padded([arrays for _, arrays in batch])
            labels = np.full(inputs[2].shape, -100, dtype=np.int64)
            for row, (example, (_, _, first)) in enumerate(batch):
                labels[row, : len(first)] = example.labels[: len(first)]
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = model(*inputs)
            loss = loss_of(logits.float().flatten(0, 1), torch.from_numpy(labels).flatten())
            losses.append(steps.take(loss, (done + at / len(made)) / args.rounds))
        print(f"round {done + 1}: {len(made)} batches, loss {np.mean(losses):.4f}", flush=True)
        torch.save(model.state_dict(), args.out / "teacher.pt")


if __name__ == "__main__":
    main()
