"""An ONNX graph, with a tokenizer before it where it takes text. `runtime.json` says what is what.

Copied here by `spillway models build`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from ort_session import OrtSession, SessionConfig

Tensors = dict[str, npt.NDArray[np.generic]]


class Runtime:
    def __init__(
        self, directory: Path, graph: str | None = None, threads: int | None = None
    ) -> None:
        self.declared: dict[str, Any] = json.loads((directory / "runtime.json").read_text("utf-8"))
        wanted = SessionConfig(graph or self.declared["graph"], threads or self.declared["threads"])
        self.session = OrtSession(directory, wanted)
        self._types = {i.name: i.type for i in self.session.session.get_inputs()}
        self._scalars = {i.name for i in self.session.session.get_inputs() if i.shape == []}
        self._strings = {name for name, kind in self._types.items() if "string" in kind}
        self._tokenizer = self._load_tokenizer(directory)

    def _load_tokenizer(self, directory: Path) -> Any:
        text = self.declared["text"]
        if text is None:
            return None
        from tokenizers import Tokenizer  # only models that take text need it

        tokenizer = Tokenizer.from_file(str(directory / text["tokenizer"]))
        tokenizer.enable_truncation(text["most_pieces"])
        pad = padding(tokenizer)
        tokenizer.enable_padding(pad_id=tokenizer.token_to_id(pad) or 0, pad_token=pad)
        return tokenizer

    def execute(self, inputs: Tensors) -> Tensors:
        """By the names of the model, the batch first. Raises ValueError for what no row can be."""
        outputs = self.session.run(self._feed(inputs))
        return {name: np.atleast_1d(outputs[name]) for name in self.declared["outputs"]}

    def _feed(self, inputs: Tensors) -> Tensors:
        if self._tokenizer is None:
            return {name: self._values(name, inputs[name]) for name in self._types}
        texts = [_decoded(text) for text in inputs[self.declared["text"]["input"]].ravel()]
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

    def _values(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """As the graph takes them: strings as str, of bytes it would take their repr; one value
        for all rows without the axis that the protocol gives it."""
        if name in self._scalars:
            values = values.reshape(())
        if name not in self._strings:
            return values
        texts = [_decoded(text) for text in values.ravel()]
        return np.array(texts, object).reshape(values.shape)


def padding(tokenizer: Any) -> str:
    """Its own token for it: some models count places by what is none."""
    names = ((tokenizer.padding or {}).get("pad_token"), "[PAD]", "<pad>")
    known = (name for name in names if name and tokenizer.token_to_id(name) is not None)
    return next(known, "[PAD]")


def _decoded(text: object) -> str:
    try:
        return text.decode("utf-8") if isinstance(text, bytes) else str(text)
    except UnicodeDecodeError:
        # Without a cause: Python's own message would quote the text, and errors end up in logs.
        raise ValueError("text must be UTF-8") from None
