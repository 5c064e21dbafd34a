"""Words that have the shape of a name and are nobody's: brands, methods, titles of headings.

`Google Sheets` and `Gini Coefficient` are two capitalised words, as names are. The first model sees
that they are none without what stands round them: it reads the two words by themselves once, and
where it takes neither for a part of a name or an address, nothing round them is read, wherever they
stand. That holds as long as the model, which is the gate's own; kept are digests under a key of
the process, and no words.

The model reads them in their place all the same with a given name among them, and where words of
people stand near (`mentions_person`).
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from gateway.classify.names.model.labels import BEGIN, INSIDE
from gateway.core import ambient

MOST_TOKENS = 8
"""With more, a heading in capitals is read in its place."""
_NOBODY = 0.03
"""Where a name was lost for it, of 8,000 texts with names, another word stood next to the phrase
(`python -m loadtests.classify.gate`). With 0.01 a quarter fewer windows are spared, with 0.1 a tenth
more."""
_KINDS = ("PERSON", "STREET_ADDRESS")
_MOST, _DIGEST_BYTES = 50_000, 16


class PhraseVerdicts:
    """For all threads of a process. Bounded: of the 50,000 phrases met last."""

    def __init__(self) -> None:
        self._key = ambient.random_bytes(32)
        self._verdicts: dict[bytes, bool] = {}

    def nobody(self, words: str) -> bool | None:
        """Whether they are nobody's name. None: the model has not read them."""
        return self._verdicts.get(self._digest(words))

    def learn(self, words: str, probabilities: npt.NDArray[np.float32]) -> None:
        """`probabilities`: what the first model says of them alone, (words, labels)."""
        likely = [probabilities[:, BEGIN[k]] + probabilities[:, INSIDE[k]] for k in _KINDS]
        if len(self._verdicts) >= _MOST:
            self._verdicts.clear()
        # guard: C19.phrases -> self._verdicts[self._digest(words)] = True
        self._verdicts[self._digest(words)] = bool(np.max(likely) < _NOBODY)

    def _digest(self, words: str) -> bytes:
        written = words.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(written, key=self._key, digest_size=_DIGEST_BYTES).digest()
