"""Names in this process: weights that can be read and find the samples, or nothing serves (C8)."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from pathlib import Path

import pytest

from gateway.classify import NoScan, ScanFailed, ScannerUnfit
from gateway.classify.names.engines.local import LocalNames
from gateway.classify.names.engines.reader import NamesReader
from gateway.classify.names.model.tagger import Tagger

from .knowing import Knows, plain_features, tagger_that_knows
from .reading import FAR_S, THRESHOLDS


def broken_weights(folder: Path, name: str, content: bytes | None) -> Path:
    """Files of which none is fit; one of them in a certain way."""
    card = {"version": "0", "languages": ["en"], "thresholds": THRESHOLDS, "doubt": {}}
    files: dict[str, bytes | None] = {
        "card.json": json.dumps(card).encode(),
        "pieces.txt": b"[PAD]\n[UNK]",
        "lexicon.npz": b"PK",
        "languages.npz": b"",
        "first.onnx": b"\x00",
        name: content,
    }
    for file, data in files.items():
        if data is not None:
            (folder / file).write_bytes(data)
    return folder


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("card.json", None), ("card.json", b""), ("card.json", b"[]"), ("card.json", b"{}"),
        ("card.json", b'{"languages": 3}'), ("pieces.txt", None), ("pieces.txt", b"\xff\xfe"),
        ("lexicon.npz", None), ("lexicon.npz", b""), ("lexicon.npz", b"PK\x03\x04"),
        ("languages.npz", b"nonsense"), ("first.onnx", b"nonsense"),
        ("second.onnx", None), ("second.onnx", b"nonsense"),
    ],
)  # fmt: skip
def test_weights_that_cannot_be_read_stop_the_start(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    names = LocalNames(["en"], weights=broken_weights(tmp_path, name, content))
    with pytest.raises(ScannerUnfit) as failure:
        asyncio.run(names.start())
    assert failure.value.__cause__ is None


def test_a_model_that_misses_its_samples_is_unfit() -> None:
    def missed(known: dict[str, str], *languages: str) -> list[str]:
        return NamesReader(tagger_that_knows(known), None, THRESHOLDS).missed(languages)

    assert missed({}, "en") == ["PERSON (en)", "STREET_ADDRESS (en)"]
    assert missed({"Margaret": "PERSON"}, "en")[0] == "PERSON (en)"  # a lone name is too little
    assert missed({"Katharina": "PERSON", "50674": "STREET_ADDRESS"}, "de") == []
    assert missed({"summary": "PERSON"}) == ["PERSON (false alarm)"]


def test_a_language_without_samples_is_unfit() -> None:
    reader = NamesReader(Tagger(plain_features(), Knows({})), None, THRESHOLDS)
    assert reader.missed(["sv"]) == [
        "PERSON (sv: there is no sample)",
        "STREET_ADDRESS (sv: there is no sample)",
    ]


def test_before_the_start_there_is_no_scan() -> None:
    async def play() -> None:
        names = LocalNames(["en"])
        await names.aclose()
        await names.find(["Anna Schmidt"], 1.0)

    with pytest.raises(ScanFailed):
        asyncio.run(play())


@pytest.fixture
def unsure(tmp_path: Path, weights: Path) -> Path:
    """The weights, but sure of nothing."""
    shutil.copytree(weights, tmp_path / "weights")
    card = json.loads((weights / "card.json").read_text())
    card["thresholds"] = dict.fromkeys(THRESHOLDS, 1.1)
    (tmp_path / "weights" / "card.json").write_text(json.dumps(card))
    return tmp_path / "weights"


def test_missed_samples_stop_the_start(unsure: Path) -> None:
    with pytest.raises(ScannerUnfit, match=r"PERSON \(en\)"):
        asyncio.run(LocalNames(["en"], weights=unsure).start())


def test_names_can_be_closed_and_started_again(weights: Path) -> None:
    async def play() -> list[object]:
        names = LocalNames(["en", "de"], weights=weights)
        seen: list[object] = []
        for _ in range(2):
            await names.start()
            await names.start()
            seen.append(bool((await names.find(["Please call Margaret Whitfield."], FAR_S))[0]))
            await names.aclose()
            await names.aclose()
            try:
                await names.find(["Please call Margaret Whitfield."], FAR_S)
            except NoScan as failure:
                seen.append(failure.reason)
        return seen

    before = threading.active_count()
    assert asyncio.run(play()) == [True, "failed"] * 2
    assert threading.active_count() <= before
