"""MiniLM's layers as taggers of words: the teacher has all of them, the second model a few.

Letters' case and the lexicon are added to what comes in, as MiniLM's own tokenizer drops case.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from gateway.classify.names.model.features import PIECES
from gateway.classify.names.model.labels import LABELS
from training.corpus import Example
from training.student import SMALL_TABLES

WIDTH, HEADS = 384, 12
FIRST_PIECE, UNKNOWN_PIECE = 101, 100  # [CLS] and [UNK]
_THEIRS = {
    "query": "attention.self.query", "key": "attention.self.key",
    "value": "attention.self.value", "out": "attention.output.dense",
    "norm": "attention.output.LayerNorm", "wide": "intermediate.dense",
    "narrow": "output.dense", "norm_after": "output.LayerNorm",
}  # fmt: skip


class Layer(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm_after = nn.LayerNorm(WIDTH, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, there: Tensor) -> Tensor:
        texts, length, _ = x.shape

        def heads(y: Tensor) -> Tensor:
            return y.view(texts, length, HEADS, WIDTH // HEADS).transpose(1, 2)

        seen = nn.functional.scaled_dot_product_attention(
            heads(self.query(x)), heads(self.key(x)), heads(self.value(x)), attn_mask=there
        )
        seen = seen.transpose(1, 2).reshape(texts, length, WIDTH)
        x = self.norm(x + self.dropout(self.out(seen)))
        return self.norm_after(x + self.dropout(self.narrow(nn.functional.gelu(self.wide(x)))))


class Transformer(nn.Module):
    """`pieces_width`: how many numbers a word piece has before it is widened to `WIDTH`; all of
    them where there is none."""

    def __init__(
        self, layers: int = 6, pieces_width: int | None = None, longest: int = 512,
        dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.longest = longest
        self.pieces = nn.Embedding(30522, pieces_width or WIDTH, padding_idx=0)
        self.widen = nn.Linear(pieces_width, WIDTH) if pieces_width else nn.Identity()
        self.places = nn.Embedding(longest, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(Layer(dropout) for _ in range(layers))
        self.small = nn.ModuleDict(
            {str(column): nn.Embedding(rows, WIDTH) for column, (rows, _) in SMALL_TABLES.items()}
        )
        for table in self.small.values():
            nn.init.normal_(table.weight, std=0.01)
        self.exit = nn.Sequential(nn.Dropout(0.1), nn.Linear(WIDTH, len(LABELS)))

    @classmethod
    def of_minilm(cls, minilm: Path) -> Transformer:
        model = cls()
        found = load_file(minilm / "model.safetensors")
        kind = found["embeddings.token_type_embeddings.weight"][0]
        model.pieces.weight.data = found["embeddings.word_embeddings.weight"].float()
        model.places.weight.data = found["embeddings.position_embeddings.weight"].float() + kind
        _copy(model.norm, found, "embeddings.LayerNorm")
        for at, layer in enumerate(model.layers):
            for ours, theirs in _THEIRS.items():
                _copy(getattr(layer, ours), found, f"encoder.layer.{at}.{theirs}")
        return model

    def start_from(self, state: dict[str, Tensor]) -> None:
        """Takes over the lower layers of a larger one, and its word pieces reduced to their
        principal components."""
        pieces = state["pieces.weight"]
        mean = pieces[1:].mean(0)
        _, _, axes = torch.linalg.svd(pieces[1:] - mean, full_matrices=False)
        axes = axes[: self.pieces.embedding_dim]
        self.widen.weight.data, self.widen.bias.data = axes.T.clone(), mean.clone()
        taken = {
            name: value
            for name, value in state.items()
            if name in self.state_dict() and not name.startswith(("pieces.", "places."))
        }
        taken["places.weight"] = state["places.weight"][: self.longest]
        taken["pieces.weight"] = (pieces - mean) @ axes.T
        taken["pieces.weight"][0] = 0
        missing, _ = self.load_state_dict(taken, strict=False)
        assert all(name.startswith("widen.") for name in missing), missing

    def forward(self, pieces: Tensor, features: Tensor, first: Tensor) -> Tensor:
        """pieces (texts, pieces), features (texts, pieces, small columns), first (texts, words):
        where each word's first piece is -> logits (texts, words, labels)."""
        there = (pieces > 0)[:, None, None, :]
        x = self.widen(self.pieces(pieces)) + self.places.weight[: pieces.shape[1]]
        for at, table in enumerate(self.small.values()):
            x = x + table(features[:, :, at])
        x = self.dropout(self.norm(x))
        for layer in self.layers:
            x = layer(x, there)
        words = x.gather(1, first[:, :, None].expand(-1, -1, WIDTH))
        return self.exit(words)  # type: ignore[no-any-return]


def _copy(module: nn.Module, found: dict[str, Tensor], name: str) -> None:
    module.weight.data = found[f"{name}.weight"].float()
    module.bias.data = found[f"{name}.bias"].float()


Arrays = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]


def flat(rows: npt.NDArray[np.int32], longest: int) -> Arrays:
    """Pieces one after the other (behind [CLS]), their words' features, each word's first piece.
    Words beyond `longest` pieces are left out."""
    pieces, features, first = [FIRST_PIECE], [np.zeros(len(SMALL_TABLES), dtype=np.int64)], []
    columns = list(SMALL_TABLES)
    for row in rows:
        found = [int(p) for p in row[:PIECES] if p] or [UNKNOWN_PIECE]
        if len(pieces) + len(found) > longest:
            break
        first.append(len(pieces))
        pieces += found
        features += [row[columns].astype(np.int64)] * len(found)
    return np.array(pieces), np.stack(features), np.array(first, dtype=np.int64)


def padded(batch: list[Arrays]) -> tuple[Tensor, Tensor, Tensor]:
    longest = max(len(p) for p, _, _ in batch)
    words = max(len(w) for _, _, w in batch)
    pieces = np.zeros((len(batch), longest), dtype=np.int64)
    features = np.zeros((len(batch), longest, len(SMALL_TABLES)), dtype=np.int64)
    first = np.zeros((len(batch), words), dtype=np.int64)
    for at, (p, f, w) in enumerate(batch):
        pieces[at, : len(p)], features[at, : len(p)], first[at, : len(w)] = p, f, w
    return torch.from_numpy(pieces), torch.from_numpy(features), torch.from_numpy(first)


Pair = tuple[Example, Arrays]


def batched(
    examples: list[Example], rng: random.Random, longest: int, batch_pieces: int
) -> list[list[Pair]]:
    made: list[list[Pair]] = [[]]
    arrays = [(e, flat(e.rows, longest)) for e in examples]
    for pair in sorted(arrays, key=lambda a: len(a[1][0]) + rng.random() * 4):
        most = max(len(pair[1][0]), *(len(a[0]) for _, a in made[-1]), 1)
        if made[-1] and most * (len(made[-1]) + 1) > batch_pieces:
            made.append([])
        made[-1].append(pair)
    rng.shuffle(made)
    return made
