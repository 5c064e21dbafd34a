"""The one way to a pseudonymised call: nothing of an original may be left in what is to be sent.

All strings are looked at, keys and numbers too, as they are written and in every form that the
classifier reads them in (URLs, escapes, base64). Words of the protocol itself are nobody's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from gateway.classify.conversations.memory import BETWEEN
from gateway.classify.pseudonyms import PseudonymDoubt
from gateway.classify.pseudonyms.documents import answer_texts
from gateway.classify.pseudonyms.forms import compact
from gateway.classify.pseudonyms.ledger import SurrogateLedger
from gateway.classify.pseudonyms.remnants import PERSON
from gateway.classify.text import normalise
from gateway.core.types import DocumentCall, InferenceRequest

_TELLING = 5  # letters and digits; shorter values are looked for as words alone


class ScrubbedRequest:
    """A request in which nothing is left of what its ledger replaced. There is no other way to
    make one than to look."""

    __slots__ = ("_request",)

    def __init__(self, request: InferenceRequest, ledger: SurrogateLedger) -> None:
        """Raises Doubt when something of an original is left."""
        call = request.payload
        if not isinstance(call, DocumentCall):
            raise PseudonymDoubt("failed")
        texts = list(answer_texts(call.document, request.model))
        if _is_left(texts, ledger):
            raise PseudonymDoubt("left_over")
        self._request = request

    @property
    def request(self) -> InferenceRequest:
        return self._request


def _is_left(texts: Sequence[str], ledger: SurrogateLedger) -> bool:
    if any(ledger.remnants.are_within(text) for text in texts):
        return True
    if _whole(texts, ledger):
        return True
    return any(ledger.remnants.are_within(form) for form in _derived(texts))


def _derived(texts: Sequence[str]) -> Iterator[str]:
    for piece in normalise.derived(BETWEEN.join(texts)).pieces:
        yield piece.text


def _whole(texts: Sequence[str], ledger: SurrogateLedger) -> bool:
    """Whether a whole value is there, perhaps over two strings."""
    lowered = [text.lower() for text in texts]
    solid = compact("".join(lowered))
    for original, type_ in ledger.originals.items():
        short = compact(original.lower())
        if type_ == PERSON or len(short) < _TELLING:
            if _stands_alone(lowered, original.lower()):
                return True
        elif short in solid:
            return True
    return False


def _stands_alone(texts: Collection[str], word: str) -> bool:
    for text in texts:
        at = text.find(word)
        while at >= 0:
            end = at + len(word)
            if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
                return True
            at = text.find(word, at + 1)
    return False
