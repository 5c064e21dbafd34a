"""An ONNX graph, with a tokenizer before it where it takes text. `runtime.json` says what is what.

Copied here by `spillway models build`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from ort_session import OrtSession, SessionConfig, decoded

Tensors = dict[str, npt.NDArray[np.generic]]
_COLUMNS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}


class Runtime:
    def __init__(
        self, directory: Path, graph: str | None = None, threads: int | None = None
    ) -> None:
        self.declared: dict[str, Any] = json.loads((directory / "runtime.json").read_text("utf-8"))
        wanted = SessionConfig(graph or self.declared["graph"], threads or self.declared["threads"])
        self.session = OrtSession(directory, wanted)
        self._types = {i.name: i.type for i in self.session.session.get_inputs()}
        self._pieces = self._text_pieces(directory)
        self._scalars = {i.name for i in self.session.session.get_inputs() if i.shape == []}
        self._strings = {name for name, kind in self._types.items() if "string" in kind}

    def _text_pieces(self, directory: Path) -> Any:
        if (text := self.declared["text"]) is None:
            return None
        from text_pieces import TextPieces  # only models that take text need a tokenizer

        return TextPieces(directory / text["tokenizer"], text["most_pieces"])

    @property
    def takes_text(self) -> bool:
        return self._pieces is not None

    def execute(self, inputs: Tensors, truncations: Sequence[Any] = ()) -> Tensors:
        """By the names of the model, the batch first; `truncations`: of each row. Raises ValueError
        for what no row can be."""
        outputs: Tensors = {}
        if self._pieces is None:
            feed = {name: self._values(name, inputs[name]) for name in self._types}
        else:
            from text_pieces import COUNTS, counts  # only models that take text carry it

            texts = decoded(inputs[self.declared["text"]["input"]])
            pieces = self._pieces.encoded(texts, truncations)
            feed, outputs[COUNTS] = self._feed(pieces), counts(pieces)
        outputs |= self.session.run(feed)
        return {name: np.atleast_1d(outputs[name]) for name in self.declared["outputs"]}

    def _feed(self, pieces: Sequence[Any]) -> Tensors:
        """Padded to the longest, by the tokenizer's own token: some models count places by what is
        none."""
        shape = len(pieces), max(map(len, pieces))
        feed: Tensors = {}
        for name, kind in self._types.items():
            filled = self._pieces.pad_id if name == "input_ids" else 0
            feed[name] = np.full(shape, filled, np.int32 if "int32" in kind else np.int64)
            for row, encoding in enumerate(pieces):
                feed[name][row, : len(encoding)] = getattr(encoding, _COLUMNS[name])
        return feed

    def _values(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """As the graph takes them: strings as str, of bytes it would take their repr; one value
        for all rows without the axis that the protocol gives it."""
        if name in self._scalars:
            values = values.reshape(())
        if name not in self._strings:
            return values
        return np.array(decoded(values), object).reshape(values.shape)
