"""What the tests of names share: the weights, where they are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.classify.names.model.card import WEIGHTS

FILES = ("first.onnx", "second.onnx", "pieces.txt", "lexicon.npz", "languages.npz", "card.json")


@pytest.fixture(scope="session")
def weights() -> Path:
    """The trained model. It is a part of the package: a test that takes it never skips."""
    missing = [name for name in FILES if not (WEIGHTS / name).exists()]
    assert not missing, f"the names model lacks {missing}"
    return WEIGHTS
