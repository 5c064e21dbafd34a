"""The first model: a convolution tagger on word features."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gateway.classify.names.model.features import HASHED, HASHES, PIECES
from gateway.classify.names.model.labels import LABELS

SMALL_TABLES = {12: (9, 8), 13: (64, 12), 14: (13, 6), 15: (8, 8), 16: (9, 6), 17: (4, 6),
                18: (4, 6), 19: (2, 2), 20: (4, 6)}  # fmt: skip
"""Column: (rows, width)."""


class Block(nn.Module):
    """A dilated convolution of width 3 with a gate, added to what came in."""

    def __init__(self, width: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.convolution = nn.Conv1d(width, 2 * width, 3, padding=dilation, dilation=dilation)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, there: Tensor) -> Tensor:
        y = (self.norm(x) * there).transpose(1, 2)
        value, gate = self.convolution(y).chunk(2, dim=1)
        return x + self.dropout((value * torch.sigmoid(gate)).transpose(1, 2))


class Student(nn.Module):
    def __init__(
        self,
        pieces: Tensor,
        width: int = 224,
        dilations: tuple[int, ...] = (1, 2, 4, 8, 1, 2),
        hash_width: int = 40,
        dropout: float = 0.12,
    ) -> None:
        super().__init__()
        self.pieces = nn.Embedding.from_pretrained(pieces, freeze=True, padding_idx=0)
        self.hashed = nn.Embedding(HASHED, hash_width, padding_idx=0)
        nn.init.normal_(self.hashed.weight, std=0.05)
        self.small = nn.ModuleDict(
            {str(column): nn.Embedding(*shape) for column, shape in SMALL_TABLES.items()}
        )
        total = pieces.shape[1] + hash_width + sum(w for _, w in SMALL_TABLES.values())
        self.entry = nn.Sequential(nn.LayerNorm(total), nn.Linear(total, width), nn.GELU())
        self.blocks = nn.ModuleList(Block(width, d, dropout) for d in dilations)
        self.around = nn.Linear(width, width)  # what kind of text this is, from the mean of it
        self.exit = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, len(LABELS)))
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Tensor) -> Tensor:
        """rows (texts, words, COLUMNS) -> logits (texts, words, labels)."""
        there = (rows[:, :, 14:15] > 0).to(self.hashed.weight.dtype)
        pieces = self.pieces(rows[:, :, :PIECES])
        counted = (rows[:, :, :PIECES] > 0).sum(-1, keepdim=True).clamp(min=1)
        mean = pieces.sum(2) / counted
        hashed = self.hashed(rows[:, :, PIECES : PIECES + HASHES]).sum(2)
        parts = [mean, hashed] + [
            self.small[str(column)](rows[:, :, column]) for column in SMALL_TABLES
        ]
        x = self.dropout(self.entry(torch.cat(parts, -1)))
        for at, block in enumerate(self.blocks):
            x = block(x, there)
            if at == len(self.blocks) // 2:
                around = (x * there).sum(1, keepdim=True) / there.sum(1, keepdim=True).clamp(min=1)
                x = x + self.around(around)
        return self.exit(x)  # type: ignore[no-any-return]
