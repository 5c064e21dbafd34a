"""Texts to sentence vectors: all-MiniLM-L6-v2 on ONNX Runtime, with tokenizer and pooling."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
from tokenizers import Tokenizer

MAX_PIECES = 256  # the length that the weights were trained for; longer texts are cut
THREADS = 2

Tensors = dict[str, npt.NDArray[np.generic]]


class Runtime:
    def __init__(self, directory: Path) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.inter_op_num_threads = 1
        # Threads that spin while they wait take the processor from the server beside them.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = ort.InferenceSession(
            str(directory / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self._tokenizer.enable_truncation(MAX_PIECES)
        self._tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")

    def execute(self, inputs: Tensors) -> Tensors:
        """`text` [batch, 1] of UTF-8 bytes -> `embedding` [batch, 384], each of length one."""
        texts = [decoded(text) for text in inputs["text"].ravel()]
        pieces = self._tokenizer.encode_batch(texts)
        (embedding,) = self._session.run(
            ["embedding"],
            {
                "input_ids": np.array([p.ids for p in pieces], dtype=np.int64),
                "attention_mask": np.array([p.attention_mask for p in pieces], dtype=np.int64),
            },
        )
        return {"embedding": embedding}


def decoded(text: object) -> str:
    try:
        return text.decode("utf-8") if isinstance(text, bytes) else str(text)
    except UnicodeDecodeError:
        # Without a cause: Python's own message would quote the text, and errors end up in logs.
        raise ValueError("text must be UTF-8") from None
