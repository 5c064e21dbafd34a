"""Writes the second model as ONNX with 8-bit weights: `python -m training.export_second --out DIR`.

It reads one stretch in a run, so there is no padding and nothing to hide from attention, and the
scales of 8-bit activations may be those of the run: there is no other text in it.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import Tensor, nn

from training.second import LAYERS, PIECES_WIDTH
from training.student import SMALL_TABLES
from training.transformer import HEADS, WIDTH, Layer, Transformer

STRETCH = 128  # places: one that begins, and the gateway's longest stretch


class FlatLayer(nn.Module):
    """The same as `Layer` for one text, in fewer and larger products."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.all = nn.Linear(WIDTH, 3 * WIDTH)
        scale = (WIDTH // HEADS) ** -0.5
        parts = ((layer.query, scale), (layer.key, 1.0), (layer.value, 1.0))
        self.all.weight.data = torch.cat([part.weight * by for part, by in parts])
        self.all.bias.data = torch.cat([part.bias * by for part, by in parts])
        self.out, self.norm = layer.out, layer.norm
        self.wide, self.narrow, self.norm_after = layer.wide, layer.narrow, layer.norm_after

    def forward(self, x: Tensor) -> Tensor:
        parts = self.all(x).view(-1, 3, HEADS, WIDTH // HEADS).permute(1, 2, 0, 3)
        seen = torch.softmax(parts[0] @ parts[1].transpose(1, 2), -1) @ parts[2]
        x = self.norm(x + self.out(seen.transpose(0, 1).reshape(-1, WIDTH)))
        return self.norm_after(x + self.narrow(nn.functional.gelu(self.wide(x))))


class Flat(nn.Module):
    """The same function as `Transformer.forward`, of one text."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.pieces, self.widen, self.norm = model.pieces, model.widen, model.norm
        self.places = nn.Embedding.from_pretrained(model.places.weight[:STRETCH])
        tables = [model.small[str(column)].weight for column in SMALL_TABLES]
        self.small = nn.Embedding.from_pretrained(torch.cat(tables))
        begins = np.cumsum([0, *(len(table) for table in tables[:-1])])
        self.begins = nn.Parameter(torch.tensor(begins, dtype=torch.int32), requires_grad=False)
        self.layers = nn.ModuleList(FlatLayer(layer) for layer in model.layers)
        self.exit = model.exit

    def forward(self, pieces: Tensor, words: Tensor, about: Tensor, first: Tensor) -> Tensor:
        """gateway/classify/names/model/second.py says what these are."""
        known = self.small(about + self.begins).sum(1)
        at = torch.ones_like(pieces).cumsum(0) - 1
        x = self.widen(self.pieces(pieces)) + self.places(at) + known[words]
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x)
        return self.exit(x[first])  # type: ignore[no-any-return]


def export(model: Transformer, path: Path) -> None:
    model.eval()
    flat = Flat(model).eval()
    given = (
        torch.tensor([101, 2000, 2001, 2002], dtype=torch.int32),
        torch.tensor([0, 1, 1, 2], dtype=torch.int32),
        torch.ones((3, len(SMALL_TABLES)), dtype=torch.int32),
        torch.tensor([1, 3], dtype=torch.int32),
    )
    whole = path.with_suffix(".fp32.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            flat, given, str(whole), input_names=["pieces", "words", "about", "first"],
            output_names=["logits"], opset_version=17, dynamo=False,
            dynamic_axes={
                "pieces": {0: "pieces"}, "words": {0: "pieces"}, "about": {0: "all"},
                "first": {0: "words"}, "logits": {0: "words"},
            },
        )  # fmt: skip
    quantize_dynamic(
        whole, path, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul", "Gather", "Gemm"],
        per_channel=True, extra_options={"MatMulConstBOnly": True},
    )  # fmt: skip
    features = given[2][given[1].long()]
    with torch.no_grad():
        trained = model(given[0][None], features[None], given[3][None].long())[0]
        same = float((flat(*given) - trained).abs().max())
    if same > 1e-3:
        raise SystemExit(f"the exported function differs from the trained one by {same}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    model = Transformer(LAYERS, PIECES_WIDTH, longest=256)
    model.load_state_dict(torch.load(args.out / "second.pt"))
    export(model, args.out / "second.onnx")
    print((args.out / "second.onnx").stat().st_size)


if __name__ == "__main__":
    main()
