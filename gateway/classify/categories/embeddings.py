"""The embedding model in this process: the files that Triton serves, read by ONNX Runtime.

No endpoint is called, so nothing can be down, late or another's. One thread computes,
and gives the interpreter lock back meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gateway.classify import ScannerUnfit

Vectors = npt.NDArray[np.float32]
"""A row a text, of length one."""

GRAPHS = ("model.int8.onnx", "model.onnx")
"""The first that is there; in 8 bits it takes half the time."""
TOKENIZER = "tokenizer.json"
_MOST_PIECES = 256  # of a row: what the weights were trained for
_BATCH_PIECES = 1024


def graph(directory: Path) -> Path:
    """Raises ScannerUnfit where the directory has no such model."""
    for name in GRAPHS:
        if (directory / name).is_file() and (directory / TOKENIZER).is_file():
            return directory / name
    raise ScannerUnfit(
        f"classify.embeddings: {directory} has no {GRAPHS[-1]} with a {TOKENIZER}; name the "
        "directory of a version, such as models/minilm/1"
    )


class EmbeddingModel(Protocol):
    """Says where texts lie among others. The seam for a model that is served elsewhere."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Raises whatever it likes where it cannot; no text may be in that."""
        ...


class LocalEmbeddings:
    def __init__(self, directory: Path) -> None:
        """Raises ScannerUnfit."""
        import onnxruntime  # most gateways have no categories
        from tokenizers import Tokenizer

        path = graph(directory)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # its messages name values of inputs
        try:
            self._tokenizer: Any = Tokenizer.from_file(str(directory / TOKENIZER))
            self._session: Any = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as exc:  # noqa: BLE001 - each file has a reader with errors of its own
            raise ScannerUnfit(f"classify.embeddings: {path}: {type(exc).__name__}") from None
        self._tokenizer.enable_truncation(_MOST_PIECES)
        self._tokenizer.no_padding()
        self.vocabulary: int = self._tokenizer.get_vocab_size()
        around = self._tokenizer.encode("a")
        own = around.special_tokens_mask.index(0)
        self._head = around.ids[:own]
        self._tail = [i for i, s in zip(around.ids, around.special_tokens_mask, strict=True) if s]
        self._tail = self._tail[own:]

    def pieces(self, texts: Sequence[str]) -> list[list[int]]:
        """The numbers of each text's word pieces, in order."""
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [
            [piece for part in (encoding, *encoding.overflowing) for piece in part.ids]
            for encoding in encodings
        ]

    def embed_pieces(self, pieces: Sequence[int]) -> Vectors:
        """Of each as a text of its own."""
        rows = [[*self._head, piece, *self._tail] for piece in pieces]
        size = _BATCH_PIECES // len(rows[0])
        return np.concatenate([self._run(rows[at : at + size]) for at in range(0, len(rows), size)])

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A long text's vector is the mean of its parts', of length one."""
        rows: list[list[int]] = []
        owners: list[int] = []
        for at, encoding in enumerate(self._tokenizer.encode_batch(list(texts))):
            # guard: C21.long-pieces -> parts = [encoding]
            parts = [encoding, *encoding.overflowing]
            rows += [part.ids for part in parts]
            owners += [at] * len(parts)
        vectors = np.zeros((len(texts), 0), np.float32)
        for batch in _batches(list(map(len, rows))):
            computed = self._run([rows[at] for at in batch])
            if not vectors.shape[1]:
                vectors = np.zeros((len(texts), computed.shape[1]), np.float32)
            np.add.at(vectors, [owners[at] for at in batch], computed)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def _run(self, rows: Sequence[Sequence[int]]) -> Vectors:
        """Padded to the longest."""
        ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
        mask = np.zeros_like(ids)
        for at, row in enumerate(rows):
            ids[at, : len(row)] = row
            mask[at, : len(row)] = 1
        computed: Vectors
        (computed,) = self._session.run(["embedding"], {"input_ids": ids, "attention_mask": mask})
        return computed


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Rows of like length together, with so many pieces that a batch is short."""
    batch: list[int] = []
    for at in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[at] > _BATCH_PIECES:
            yield batch
            batch = []
        batch.append(at)
    if batch:
        yield batch
