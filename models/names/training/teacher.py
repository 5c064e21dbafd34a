"""The teacher: MiniLM-L6 (Apache-2.0), fine-tuned, with the letters' case and the lexicon added to
its inputs, as its own tokenizer drops case. It never ships; the student learns from what it says.
"""

from __future__ import annotations

import argparse
import pickle
import random
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from gateway.classify.names.features import PIECES, Features
from gateway.classify.names.labels import LABELS
from gateway.classify.names.lexicon import Lexicon
from training.corpus import Example, Sources, inflector, labelled
from training.generate import Generator
from training.student import SMALL_TABLES
from training.train import vocabulary

WIDTH, HEADS, LAYERS, LONGEST = 384, 12, 6, 384
BATCH_PIECES = 3072


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm_after = nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, x: Tensor, there: Tensor) -> Tensor:
        texts, length, _ = x.shape

        def heads(y: Tensor) -> Tensor:
            return y.view(texts, length, HEADS, WIDTH // HEADS).transpose(1, 2)

        seen = nn.functional.scaled_dot_product_attention(
            heads(self.query(x)), heads(self.key(x)), heads(self.value(x)), attn_mask=there
        )
        x = self.norm(x + self.out(seen.transpose(1, 2).reshape(texts, length, WIDTH)))
        return self.norm_after(x + self.narrow(nn.functional.gelu(self.wide(x))))


class Teacher(nn.Module):
    def __init__(self, minilm: Path | None) -> None:
        super().__init__()
        self.pieces = nn.Embedding(30522, WIDTH, padding_idx=0)
        self.places = nn.Embedding(512, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.small = nn.ModuleDict(
            {str(column): nn.Embedding(rows, WIDTH) for column, (rows, _) in SMALL_TABLES.items()}
        )
        for table in self.small.values():
            nn.init.normal_(table.weight, std=0.01)
        self.exit = nn.Sequential(nn.Dropout(0.1), nn.Linear(WIDTH, len(LABELS)))
        if minilm is not None:
            self._start_from(load_file(minilm / "model.safetensors"))

    def _start_from(self, found: dict[str, Tensor]) -> None:
        kind = found["embeddings.token_type_embeddings.weight"][0]
        self.pieces.weight.data = found["embeddings.word_embeddings.weight"].float()
        self.places.weight.data = found["embeddings.position_embeddings.weight"].float() + kind
        self._copy(self.norm, found, "embeddings.LayerNorm")
        names = {
            "query": "attention.self.query", "key": "attention.self.key",
            "value": "attention.self.value", "out": "attention.output.dense",
            "norm": "attention.output.LayerNorm", "wide": "intermediate.dense",
            "narrow": "output.dense", "norm_after": "output.LayerNorm",
        }  # fmt: skip
        for at, layer in enumerate(self.layers):
            for ours, theirs in names.items():
                self._copy(getattr(layer, ours), found, f"encoder.layer.{at}.{theirs}")

    @staticmethod
    def _copy(module: nn.Module, found: dict[str, Tensor], name: str) -> None:
        module.weight.data = found[f"{name}.weight"].float()
        module.bias.data = found[f"{name}.bias"].float()

    def forward(self, pieces: Tensor, features: Tensor, first: Tensor) -> Tensor:
        """pieces (texts, pieces), features (texts, pieces, small columns), first (texts, words):
        where each word's first piece is -> logits (texts, words, labels)."""
        there = (pieces > 0)[:, None, None, :]
        x = self.pieces(pieces) + self.places.weight[: pieces.shape[1]]
        for at, table in enumerate(self.small.values()):
            x = x + table(features[:, :, at])
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x, there)
        words = x.gather(1, first[:, :, None].expand(-1, -1, WIDTH))
        return self.exit(words)  # type: ignore[no-any-return]


Arrays = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]


def flat(rows: npt.NDArray[np.int32]) -> Arrays:
    """Pieces one after the other (behind [CLS]), their words' features, each word's first piece.
    Words beyond `LONGEST` pieces are left out."""
    pieces, features, first = [101], [np.zeros(len(SMALL_TABLES), dtype=np.int64)], []
    columns = list(SMALL_TABLES)
    for row in rows:
        found = [int(p) for p in row[:PIECES] if p] or [100]
        if len(pieces) + len(found) > LONGEST:
            break
        first.append(len(pieces))
        pieces += found
        features += [row[columns].astype(np.int64)] * len(found)
    return np.array(pieces), np.stack(features), np.array(first)


def padded(batch: list[Arrays]) -> tuple[Tensor, Tensor, Tensor]:
    longest = max(len(p) for p, _, _ in batch)
    words = max(len(w) for _, _, w in batch)
    pieces = np.zeros((len(batch), longest), dtype=np.int64)
    features = np.zeros((len(batch), longest, len(SMALL_TABLES)), dtype=np.int64)
    first = np.zeros((len(batch), words), dtype=np.int64)
    for at, (p, f, w) in enumerate(batch):
        pieces[at, : len(p)], features[at, : len(p)], first[at, : len(w)] = p, f, w
    return torch.from_numpy(pieces), torch.from_numpy(features), torch.from_numpy(first)


def batched(examples: list[Example], rng: random.Random) -> list[list[tuple[Example, Arrays]]]:
    made: list[list[tuple[Example, Arrays]]] = [[]]
    arrays = [(e, flat(e.rows)) for e in examples]
    for pair in sorted(arrays, key=lambda a: len(a[1][0]) + rng.random() * 4):
        longest = max(len(pair[1][0]), *(len(a[0]) for _, a in made[-1]), 1)
        if made[-1] and longest * (len(made[-1]) + 1) > BATCH_PIECES:
            made.append([])
        made[-1].append(pair)
    rng.shuffle(made)
    return made


def main() -> None:
    parser = argparse.ArgumentParser()
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
    model = Teacher(args.minilm)
    plain, decayed = [], []
    for parameter in model.parameters():
        (decayed if parameter.ndim > 1 else plain).append(parameter)
    optimiser = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}],
        lr=args.rate,
    )
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.02)
    total, done = 0, 0
    for _ in range(args.rounds):
        generator = Generator(pools, rng, inflector())
        examples = [
            e for s in sources.samples(generator, rng) if (e := labelled(s, features)) is not None
        ]
        made = batched(examples, rng)
        total = total or len(made) * args.rounds
        started = time.time()
        losses = []
        model.train()
        for batch in made:
            inputs = padded([arrays for _, arrays in batch])
            labels = np.full(inputs[2].shape, -100, dtype=np.int64)
            for at, (example, (_, _, first)) in enumerate(batch):
                labels[at, : len(first)] = example.labels[: len(first)]
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = model(*inputs)
            loss = loss_of(logits.float().flatten(0, 1), torch.from_numpy(labels).flatten())
            for group in optimiser.param_groups:
                group["lr"] = args.rate * min(1.0, done / 80) * max(0.02, 1 - done / total)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            losses.append(loss.item())
            done += 1
            if done % 50 == 0:
                print(
                    f"{done} of {total}, loss {np.mean(losses[-50:]):.4f}, "
                    f"{(time.time() - started) / (len(losses)):.2f} s a step",
                    flush=True,
                )
        torch.save(model.state_dict(), args.out / "teacher.pt")


if __name__ == "__main__":
    main()
