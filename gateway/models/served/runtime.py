"""An ONNX graph, with a tokenizer before it where it takes text. `runtime.json` says what is what.

Copied here by `spillway models build`.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

Tensors = dict[str, npt.NDArray[np.generic]]

log = logging.getLogger(__name__)


class Runtime:
    def __init__(
        self, directory: Path, graph: str | None = None, threads: int | None = None
    ) -> None:
        self.told: dict[str, Any] = json.loads((directory / "runtime.json").read_text("utf-8"))
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads or self.told["threads"]
        options.inter_op_num_threads = 1
        # Threads that spin while they wait take the processor from the server beside them.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 4  # its messages quote values of inputs
        wanted = ["CPUExecutionProvider"]
        if "CUDAExecutionProvider" in ort.get_available_providers() and _card_is_here():
            wanted.insert(0, "CUDAExecutionProvider")
        path = directory / (graph or self.told["graph"])
        self._session = ort.InferenceSession(str(path), options, providers=wanted)
        self.provider: str = self._session.get_providers()[0]
        if self.provider != wanted[0]:  # ONNX Runtime falls back in silence
            log.warning("%s does not load here; this model runs on %s", wanted[0], self.provider)
        self._types = {i.name: i.type for i in self._session.get_inputs()}
        self._tokenizer = self._tokenizer_of(directory)

    def _tokenizer_of(self, directory: Path) -> Any:
        text = self.told["text"]
        if text is None:
            return None
        from tokenizers import Tokenizer  # only models that take text need it

        tokenizer = Tokenizer.from_file(str(directory / text["tokenizer"]))
        tokenizer.enable_truncation(text["most_pieces"])
        tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
        return tokenizer

    def execute(self, inputs: Tensors) -> Tensors:
        """By the names of the model, the batch first. Raises ValueError for what no row can be."""
        names = list(self.told["outputs"])
        found = self._session.run(names, self._feed(inputs))
        return dict(zip(names, found, strict=True))

    def _feed(self, inputs: Tensors) -> Tensors:
        if self._tokenizer is None:
            return {name: inputs[name] for name in self._types}
        texts = [_decoded(text) for text in inputs[self.told["text"]["input"]].ravel()]
        pieces = self._tokenizer.encode_batch(texts)
        columns = {
            "input_ids": [piece.ids for piece in pieces],
            "attention_mask": [piece.attention_mask for piece in pieces],
            "token_type_ids": [piece.type_ids for piece in pieces],
        }
        return {
            name: np.array(columns[name], np.int32 if "int32" in kind else np.int64)
            for name, kind in self._types.items()
        }


def _decoded(text: object) -> str:
    try:
        return text.decode("utf-8") if isinstance(text, bytes) else str(text)
    except UnicodeDecodeError:
        # Without a cause: Python's own message would quote the text, and errors end up in logs.
        raise ValueError("text must be UTF-8") from None


def _card_is_here() -> bool:
    return Path("/dev/nvidiactl").exists()
