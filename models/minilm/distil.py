"""Trains a smaller student of MiniLM and says what it lost: `python models/minilm/distil.py`.

    pip install torch onnx onnxruntime tokenizers scipy
    python models/minilm/distil.py --layers 3 --minutes 10 --out /tmp/student.onnx

The student is the teacher with some of its layers left out, trained until its vectors are the
teacher's again on text that is here: the training text of `names`, Python's own manual
(`pydoc_data`), and stretches and joints of both. It is judged on `sentences.txt`, of which it has
seen nothing: Spearman's rank correlation of the similarities of all pairs, teacher against student.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import torch
from onnx import numpy_helper
from scipy.stats import spearmanr
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

HERE = Path(__file__).resolve().parent
TEXTS = HERE.parent / "names/text"
HEADS, WIDTH = 12, 384
MOST_PIECES = 64
KEPT = {1: (5,), 2: (0, 5), 3: (0, 2, 5), 4: (0, 2, 4, 5)}  # of the teacher's layers
SEED = 20261122

Array = npt.NDArray[np.float32]


def corpus(rng: random.Random, count: int) -> list[str]:
    """Texts, and others made of their stretches: most of what is asked for is not whole."""
    whole = list(sentences())
    made = []
    while len(made) < count:
        words = rng.choice(whole).split()
        if rng.random() < 0.3:
            words += rng.choice(whole).split()
        begin = rng.randrange(len(words))
        made.append(" ".join(words[begin : begin + rng.randint(3, 40)]))
    return whole + made


def sentences() -> Iterator[str]:
    for path in (TEXTS / f"{name}.txt" for name in ("en", "hard_negatives", "hard_positives")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("# "):
                plain = re.sub(r"\[([^]]*)\]\([A-Z_]+\)", r"\1", line.replace("\\n", " "))
                yield re.sub(r"\{(\w+)\}", r"\1", plain)
    from pydoc_data.topics import topics  # 700 KB of English

    for text in topics.values():
        yield from (s for s in re.split(r"(?<=[.:])\s+", text) if 20 < len(s) < 400)


class Layer(nn.Module):
    def __init__(self, weights: dict[str, Array], at: int) -> None:
        super().__init__()
        name = f"encoder.layer.{at}"

        def dense(part: str) -> nn.Linear:
            kernel, bias = weights[f"{name}.{part}.kernel"], weights[f"{name}.{part}.bias"]
            made = nn.Linear(*kernel.shape)
            made.weight.data = torch.tensor(kernel.T.copy())
            made.bias.data = torch.tensor(bias)
            return made

        self.qkv = dense("attention.qkv")
        self.mixed = dense("attention.output.dense")
        self.inner = dense("intermediate.dense")
        self.outer = dense("output.dense")
        self.norms = nn.ModuleList(
            norm(weights, f"{name}.{part}.LayerNorm") for part in ("attention.output", "output")
        )

    def forward(self, value: Tensor, bias: Tensor) -> Tensor:
        texts, pieces, _ = value.shape
        q, k, v = (
            part.view(texts, pieces, HEADS, -1).transpose(1, 2)
            for part in self.qkv(value).chunk(3, dim=-1)
        )
        seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        value = self.norms[0](
            value + self.mixed(seen.transpose(1, 2).reshape(texts, pieces, WIDTH))
        )
        found: Tensor = self.norms[1](value + self.outer(functional.gelu(self.inner(value))))
        return found


class Student(nn.Module):
    def __init__(self, weights: dict[str, Array], kept: Sequence[int]) -> None:
        super().__init__()
        self.words = nn.Embedding.from_pretrained(torch.tensor(weights["words"]), freeze=True)
        self.positions = nn.Parameter(torch.tensor(weights["positions"]))
        self.norm = norm(weights, "embeddings.LayerNorm")
        self.layers = nn.ModuleList(Layer(weights, at) for at in kept)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        bias = (1.0 - mask)[:, None, None, :] * -1e4
        value = self.norm(self.words(ids) + self.positions[: ids.shape[1]])
        for layer in self.layers:
            value = layer(value, bias)
        summed = (value * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return functional.normalize(summed, dim=-1)


def norm(weights: dict[str, Array], name: str) -> nn.LayerNorm:
    made = nn.LayerNorm(WIDTH, eps=1e-12)
    made.weight.data = torch.tensor(weights[f"{name}.scale"])
    made.bias.data = torch.tensor(weights[f"{name}.shift"])
    return made


def train(
    student: Student, ids: list[list[int]], wanted: Array, minutes: float, rng: random.Random
) -> int:
    """Steps of 64 texts of like length. The loss: how far vectors, and the similarities between
    those of a batch, are from the teacher's."""
    steps, batch, until_s = 0, 64, time.monotonic() + 60 * minutes
    began_s = time.monotonic()
    best = torch.optim.AdamW([p for p in student.parameters() if p.requires_grad], lr=3e-4)
    order = sorted(range(len(ids)), key=lambda at: len(ids[at]))
    groups = [order[at : at + batch] for at in range(0, len(order), batch)]
    while time.monotonic() < until_s:
        rng.shuffle(groups)
        for group in groups:
            share = (time.monotonic() - began_s) / (until_s - began_s)
            if share >= 1:
                break
            for setting in best.param_groups:
                setting["lr"] = 3e-4 * min(1.0, (steps + 1) / 50) * (1 - 0.95 * share)
            found = student(*padded([ids[at] for at in group]))
            target = torch.tensor(wanted[group])
            loss = ((found - target) ** 2).sum(1).mean()
            loss = loss + 5 * ((found @ found.T - target @ target.T) ** 2).mean()
            best.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(student.parameters(), 1.0)
            best.step()
            steps += 1
            if steps % 100 == 0:
                print(f"{steps} steps, loss {loss.item():.4f}", file=sys.stderr, flush=True)
    return steps


def padded(ids: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    longest = max(map(len, ids))
    rows = torch.tensor([[*row, *[0] * (longest - len(row))] for row in ids])
    return rows, (rows != 0).float()


def vectors(session: ort.InferenceSession, ids: Sequence[Sequence[int]]) -> Array:
    found = np.zeros((len(ids), WIDTH), dtype=np.float32)
    order = sorted(range(len(ids)), key=lambda at: len(ids[at]))
    for start in range(0, len(order), 32):
        run = order[start : start + 32]
        rows, mask = padded([ids[at] for at in run])
        feeds = {"input_ids": rows.numpy(), "attention_mask": mask.numpy().astype(np.int64)}
        found[run] = session.run(["embedding"], feeds)[0]
    return found


def correlation(one: Array, other: Array) -> float:
    pairs = np.triu_indices(len(one), 1)
    return float(spearmanr((one @ one.T)[pairs], (other @ other.T)[pairs]).statistic)


def exported(student: Student) -> onnx.ModelProto:
    """By `export.py`, from the names that it knows."""
    export = beside("export")
    weights: dict[str, Array] = {}

    def put(name: str, module: nn.Module) -> None:
        for part, tensor in module.state_dict().items():
            weights[f"{name}.{part}"] = tensor.numpy()

    put("embeddings.LayerNorm", student.norm)
    weights["embeddings.word_embeddings.weight"] = student.words.weight.detach().numpy()
    weights["embeddings.position_embeddings.weight"] = student.positions.detach().numpy()
    weights["embeddings.token_type_embeddings.weight"] = np.zeros((2, WIDTH), dtype=np.float32)
    for at, layer in enumerate(student.layers):
        name = f"encoder.layer.{at}"
        state = layer.state_dict()
        for kind in ("weight", "bias"):
            parts = state[f"qkv.{kind}"].chunk(3)
            for part, tensor in zip(("query", "key", "value"), parts, strict=True):
                weights[f"{name}.attention.self.{part}.{kind}"] = tensor.numpy()
        put(f"{name}.attention.output.dense", layer.mixed)
        put(f"{name}.intermediate.dense", layer.inner)
        put(f"{name}.output.dense", layer.outer)
        put(f"{name}.attention.output.LayerNorm", layer.norms[0])
        put(f"{name}.output.LayerNorm", layer.norms[1])
    export.LAYERS = len(student.layers)
    model: onnx.ModelProto = export.graph_of(weights)
    return model


def beside(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"minilm_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a smaller student of MiniLM.")
    parser.add_argument("--layers", type=int, choices=sorted(KEPT), default=3)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--texts", type=int, default=20_000, help="made of stretches of others")
    parser.add_argument("--out", type=Path, required=True, help="the student's ONNX file")
    chosen = parser.parse_args()
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    rng = random.Random(SEED)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(HERE / "1/model.onnx", options, ["CPUExecutionProvider"])
    graph = onnx.load(HERE / "1/model.onnx").graph
    weights = {t.name: numpy_helper.to_array(t).copy() for t in graph.initializer}
    tokenizer = Tokenizer.from_file(str(HERE / "1/tokenizer.json"))
    tokenizer.enable_truncation(MOST_PIECES)
    tokenizer.no_padding()

    def cut(texts: Sequence[str]) -> list[list[int]]:
        return [e.ids for e in tokenizer.encode_batch(list(texts))]

    unseen = cut((HERE / "sentences.txt").read_text(encoding="utf-8").splitlines())
    truth = vectors(session, unseen)
    student = Student(weights, KEPT[chosen.layers])
    ids = cut(corpus(rng, chosen.texts))
    print(f"{len(ids)} texts", file=sys.stderr, flush=True)

    def judged() -> float:
        chosen.out.write_bytes(exported(student).SerializeToString())
        small = ort.InferenceSession(chosen.out, options, ["CPUExecutionProvider"])
        return correlation(vectors(small, unseen), truth)

    before = judged()
    print(f"untrained: {before:.4f}", flush=True)
    steps = train(student, ids, vectors(session, ids), chosen.minutes, rng)
    size = chosen.out.stat().st_size / 1e6
    print(f"{steps} steps: {judged():.4f} on {len(unseen)} unseen texts, {size:.0f} MB in fp32")


if __name__ == "__main__":
    main()
