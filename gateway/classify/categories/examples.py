"""The operator's examples, and prompts of no category to compare them with."""

from __future__ import annotations

import json
from pathlib import Path

from gateway.classify import ScannerUnfit

FEWEST, MOST = 5, 500
_LONGEST = 2_000  # characters of an example


def benign() -> list[str]:
    """Everyday prompts and sentences, written for this."""
    return _lines(Path(__file__).with_name("benign.txt").read_text("utf-8"))


def read_examples(path: Path) -> list[str]:
    """Examples or counterexamples: a text a line, or with `.jsonl` an object a line that has
    `text`. Each counts once. Raises ScannerUnfit."""
    try:
        lines = _lines(path.read_text("utf-8"))
        texts = [json.loads(line)["text"] for line in lines] if path.suffix == ".jsonl" else lines
    except (OSError, ValueError, KeyError, TypeError):
        raise ScannerUnfit(
            f'{path}: cannot be read; it takes a text a line, or {{"text": ...}} in a .jsonl file'
        ) from None
    if not all(isinstance(text, str) for text in texts):
        raise ScannerUnfit(f"{path}: each text is to be a string")
    texts = list(dict.fromkeys(text.strip() for text in texts if text.strip()))
    if not FEWEST <= len(texts) <= MOST:
        raise ScannerUnfit(f"{path}: has {len(texts)} examples, {FEWEST} to {MOST} are wanted")
    if max(map(len, texts)) > _LONGEST:
        raise ScannerUnfit(f"{path}: an example has over {_LONGEST} characters; take the sentence")
    return texts


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]
