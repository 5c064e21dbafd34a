"""The texts that token ids stand for, by the vocabulary that an operator names for a model.

Callers with a tokenizer of their own send ids in the place of text (langchain's OpenAIEmbeddings
those of cl100k_base). Ids alone do not say whose they are, so only a declared vocabulary reads
them. Two forms of file are known: a `tokenizer.json` of Hugging Face, and ranks as tiktoken has
them, a base64 token and its id a line. Nothing is downloaded.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

Decode = Callable[[Sequence[int]], str]
"""Raises KeyError for an id that the vocabulary lacks."""

_LONGEST: Final = 16 * 1024 * 1024  # characters of one call's texts
_PART = "\ufffd"
_PROBE: Final = "Zoë Müller-Low, zoe.low@example.com, +49 (0)89 12-34, DE89 3704 0044"
"""Case, accents, and spaces beside punctuation: some tokenizers drop them."""


class BadVocabulary(ValueError):
    """A file that is no vocabulary; the message says what is one."""


class UnknownTokens(ValueError):
    """Ids that the vocabulary lacks, or whose texts are too long; the message says where."""


@dataclass(frozen=True, slots=True)
class TokenEncoding:
    decode: Decode
    exact: bool = True  # ids say a text as it was written

    def texts(self, given: list[Any]) -> tuple[list[str], bool]:
        """Of one list of ids, or of several lists, and whether they are exact. A part of a
        character is U+FFFD, as tiktoken has it: clients cut long texts between any two tokens.
        Raises UnknownTokens."""
        rows: list[list[int]] = given if isinstance(given[0], list) else [given]
        texts: list[str] = []
        size, exact = 0, self.exact
        for at, ids in enumerate(rows):
            try:
                texts.append(self.decode(ids))
            except KeyError:  # without a cause: it names the id
                where = f"list {at}" if rows is given else "the list"
                raise UnknownTokens(f"{where} has an id that the vocabulary lacks") from None
            size += len(texts[-1])
            exact = exact and _PART not in texts[-1]
            if size > _LONGEST:
                raise UnknownTokens("the ids stand for more text than one call may hold")
        return texts, exact


def load(path: Path) -> TokenEncoding:
    """Raises BadVocabulary."""
    try:
        state = path.stat()
        return _loaded(path, state.st_mtime_ns, state.st_size)
    except OSError as exc:
        raise BadVocabulary(f"cannot be read: {exc.strerror}") from exc


@lru_cache(maxsize=8)
def _loaded(path: Path, mtime_ns: int, size: int) -> TokenEncoding:
    """Once for each content: a vocabulary has a hundred thousand tokens."""
    raw = path.read_bytes()
    encoding = _from_tokenizer(raw) if raw.lstrip()[:1] == b"{" else _from_ranks(raw)
    if encoding is None:
        raise BadVocabulary("is neither a tokenizer.json nor ranks of tiktoken")
    return encoding


def _from_tokenizer(raw: bytes) -> TokenEncoding | None:
    from tokenizers import Tokenizer  # only few settings name a vocabulary

    try:
        tokenizer = Tokenizer.from_str(raw.decode())
    except Exception:  # noqa: BLE001 - it raises Exception itself
        return None
    known = frozenset(tokenizer.get_vocab(with_added_tokens=True).values())

    def decode(ids: Sequence[int]) -> str:
        if not known.issuperset(ids):  # guard: C22.unknown-tokens
            raise KeyError
        text: str = tokenizer.decode(ids, skip_special_tokens=True)
        return text

    probed = decode(tokenizer.encode(_PROBE, add_special_tokens=False).ids)
    return TokenEncoding(decode, exact=probed.strip() == _PROBE)


def _from_ranks(raw: bytes) -> TokenEncoding | None:
    try:
        pairs = (line.split() for line in raw.splitlines() if line)
        tokens = {int(rank): base64.b64decode(token, validate=True) for token, rank in pairs}
    except (ValueError, binascii.Error):
        return None
    if not tokens:
        return None

    def decode(ids: Sequence[int]) -> str:
        return b"".join(map(tokens.__getitem__, ids)).decode("utf-8", "replace")

    return TokenEncoding(decode)
