"""What the names model is trained on: text with slots, licensed sets, and examples made of them."""

from __future__ import annotations

import importlib
import json
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gateway.classify.names.model.card import WEIGHTS
from gateway.classify.names.model.lexicon import Lexicon

from .serving import MODELS

NAMES = MODELS / "names"
TEXTS = sorted((NAMES / "text").glob("*.txt"))
SHARED = Path(__file__).parents[3] / "shared" / "data" / "pii"
ONLY_FOR_TRAINING = "only for training: pip install -r requirements/train.txt"


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Modules of models/names/training by name; those that need Faker or torch skip without."""
    monkeypatch.syspath_prepend(str(NAMES))

    def load(name: str, *needs: str) -> ModuleType:
        for package in needs:
            pytest.importorskip(package, reason=ONLY_FOR_TRAINING)
        return importlib.import_module(f"training.{name}")

    return load


def lines() -> Iterator[tuple[str, str]]:
    for path in TEXTS:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if line.strip() and not line.startswith("#"):
                yield f"{path.name}:{number}", line


def test_there_is_text_in_every_language_that_the_gateway_reads() -> None:
    from gateway.classify.names.canaries import CANARIES

    languages = {language for language, *_ in CANARIES}
    assert {path.stem for path in TEXTS} == languages | {
        "hard_negatives",
        "hard_positives",
        "tweets",
    }


def test_the_lexicon_that_ships_knows_the_given_names_beside_those_of_faker(
    training: Any, tmp_path: Path
) -> None:
    given, shipped = training("given"), WEIGHTS / "lexicon.npz"
    lexicon, names = Lexicon.load(shipped), list(given.names())
    assert [n for n in names if lexicon.find(n).given < given.KNOWN_AS_GIVEN] == []
    copied = Path(shutil.copy(shipped, tmp_path / "lexicon.npz"))
    assert given.add(copied) == 0
    with np.load(copied) as found:  # and what is added is found
        steps, facts = found["steps"], found["facts"]
    np.savez_compressed(copied, steps=steps[:1], facts=facts[:1])
    assert given.add(copied) == len(set(names))
    again = Lexicon.load(copied)
    assert {again.find(n).given for n in names} == {given.KNOWN_AS_GIVEN}


def test_every_line_of_text_is_a_template(training: Any) -> None:
    templates = training("templates")
    misread = re.compile(r"\]\([A-Z_]+\)|\{\w|\w\}")
    wrong = []
    for where, line in lines():
        try:
            parts = templates.parse(line)
        except templates.BadTemplate as exc:
            wrong.append(f"{where}: {exc}")
            continue
        # A kind with a typo is a link to Markdown, and a slot with one plain text.
        wrong += [
            f"{where}: {part.text!r}"
            for part in parts
            if not part.slot and not part.kind and misread.search(part.text) and "{{" not in line
        ]
        wrong += [
            f"{where}: {part.text!r} is no whole word"
            for part in parts
            if part.kind and (part.text != part.text.strip() or not re.search(r"\w", part.text))
        ]
    assert wrong == []


def test_mentions_that_are_written_out_lie_in_the_text(training: Any) -> None:
    templates = training("templates")
    for where, line in lines():
        text, spans = "", []
        for part in templates.parse(line):
            said = f"<{part.slot}>" if part.slot else part.text
            if part.kind:
                spans.append((len(text), len(text) + len(said), part.text))
            text += said
        assert all(text[start:end] == said for start, end, said in spans), where
        ends = [0, *(end for _, end, _ in spans)]
        assert all(start >= end for (start, *_), end in zip(spans, ends, strict=False)), where


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("plain", [("plain", "", "", "")]),
        ("{person} lives", [("", "", "person", ""), (" lives", "", "", "")]),
        ("dla {person:gen}", [("dla ", "", "", ""), ("", "", "person", "gen")]),
        ("[Bo](PERSON)", [("Bo", "PERSON", "", "")]),
        ("[1 Oak St](ADDRESS)", [("1 Oak St", "STREET_ADDRESS", "", "")]),
        ("[docs](https://x.y)", [("[docs](https://x.y)", "", "", "")]),
        ("{{x}}", [("{", "", "", ""), ("x", "", "", ""), ("}", "", "", "")]),
        (r"a\nb", [("a\nb", "", "", "")]),
    ],
)
def test_a_line_with_slots_and_mentions(
    training: Any, line: str, parts: list[tuple[str, ...]]
) -> None:
    found = training("templates").parse(line)
    assert [(p.text, p.kind, p.slot, p.case) for p in found] == parts


@pytest.mark.parametrize("line", ["{persom}", "{person:abl}", "a { b", "a } b", "{ person }"])
def test_a_slot_that_there_is_not_is_an_error(training: Any, line: str) -> None:
    templates = training("templates")
    with pytest.raises(templates.BadTemplate):
        templates.parse(line)


def record(text: str, *spans: tuple[int, int, str, str], **more: str) -> str:
    made = [{"start": s, "end": e, "type": kind, "raw": raw} for s, e, kind, raw in spans]
    return json.dumps({"id": "1", "text": text, "lang": "en", "spans": made, **more})


def test_a_set_is_read_in_two_halves_that_share_nothing(training: Any, tmp_path: Path) -> None:
    sets = training("sets")
    texts = [f"text number {n}" for n in range(500)]
    (tmp_path / "wnut17.dev.jsonl").write_text("\n".join(map(record, texts)))
    held, kept = (
        {s.text for s in sets.read(tmp_path, "wnut17", held_out=out)} for out in (True, False)
    )
    assert held | kept == set(texts)
    assert not held & kept
    assert 0.15 < len(held) / len(texts) < 0.25


def test_prompts_with_a_name_in_them_are_no_examples_of_text_without(
    training: Any, tmp_path: Path
) -> None:
    sets = training("sets")
    both = [record("a", benign_class="none"), record("b", benign_class="public_figure")]
    (tmp_path / "benign.dev.jsonl").write_text("\n".join(both))
    found = [s.text for out in (True, False) for s in sets.read(tmp_path, "benign", held_out=out)]
    assert found == ["a"]


@pytest.mark.parametrize(
    ("text", "kind", "raw", "said"),
    [
        ("Mr. Dupont", "PERSON", "PER", "Dupont"),
        ("M. et Mme Dupont", "PERSON", "PER", "Dupont"),
        ("Mme", "PERSON", "PER", "Mme"),
        ("12 Oak St", "LOCATION", "STREET_ADDRESS", "12 Oak St"),
        ("Paris", "LOCATION", "GPE", "Paris"),
        ("Monday", "DATE_TIME", "DATE", None),
    ],
)
def test_spans_are_brought_to_one_form(
    training: Any, text: str, kind: str, raw: str, said: str | None
) -> None:
    found = list(training("sets")._spans(json.loads(record(text, (0, len(text), kind, raw)))))
    assert [text[start:end] for start, end, _ in found] == ([] if said is None else [said])


@pytest.mark.skipif(not SHARED.is_dir(), reason="the development sets are not here")
def test_spans_of_the_development_sets_lie_in_their_texts(training: Any) -> None:
    sets = training("sets")
    for name in sets.SHIPPABLE:
        samples = list(sets.read(SHARED, name, held_out=True))
        assert samples
        for sample in samples:
            assert all(0 <= s < e <= len(sample.text) for s, e, _ in sample.spans), name


def test_the_model_card_names_every_set_and_its_licence(training: Any) -> None:
    card = (NAMES / "README.md").read_text("utf-8")
    for name in training("sets").SHIPPABLE:
        assert f"`{name}`" in card


# What needs Faker


@pytest.fixture
def generator(training: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    pools = training("pools", "faker")
    monkeypatch.setattr(pools, "_PERSONS", 8)
    monkeypatch.setattr(pools, "_PLACES", 4)
    generate = training("generate", "faker")
    return generate.Generator(
        pools.Pools.build(3), random.Random(3), lambda given, surname, case: (given, surname)
    )


def test_every_slot_makes_mentions_that_lie_in_the_text(training: Any, generator: Any) -> None:
    templates, generate = training("templates"), training("generate", "faker")
    kinds = {"given", "surname", "person", "titled", "initials", "person_rev", "surname_caps"}
    for lang in ("en", "de", "fr", "es", "it", "pt", "nl", "pl"):
        for slot in templates.SLOTS:
            for _ in range(5):
                made = generator.fill(templates.parse(f"- {{{slot}}}."), lang, "test")
                sample = generate.varied(made, random.Random(1))
                assert all(0 <= s < e <= len(sample.text) - 1 for s, e, _ in sample.spans)
                if slot in kinds:
                    assert [kind for *_, kind in sample.spans] == ["PERSON"], slot


def test_a_given_name_and_a_surname_are_one_mention(training: Any, generator: Any) -> None:
    templates = training("templates")
    made = generator.fill(templates.parse("{given} {surname}, {given}"), "en", "test")
    assert len(made.spans) == 2
    assert made.text[slice(*made.spans[0][:2])] + ", " == made.text[: made.spans[1][0]]


def test_writing_a_text_differently_keeps_its_mentions(training: Any) -> None:
    generate, sets = training("generate", "faker"), training("sets")
    sample = sets.Sample("Straße: Zoë Łuk.", ((8, 15, "PERSON"),), "de", "test")
    for vary in (generate.lowered, generate.raised, generate.unaccented, generate.without_end):
        made = vary(sample)
        assert len(made.text) == len(sample.text)
        assert made.spans == sample.spans
    joined = generate.joined([sample, sample], " | ")
    assert [joined.text[s:e] for s, e, _ in joined.spans] == ["Zoë Łuk"] * 2


def test_labels_are_those_of_the_words_of_a_mention(training: Any) -> None:
    corpus, sets = training("corpus", "faker"), training("sets")
    from tests.unit.classify.names.knowing import plain_features

    text = "call Anna Lee, Bo"
    sample = sets.Sample(text, ((5, 13, "PERSON"), (15, 17, "PERSON")), "en", "test")
    assert corpus.labelled(sample, plain_features()).labels.tolist() == [0, 1, 2, 0, 1]
    assert corpus.labelled(sets.Sample(" ", (), "en", "test"), plain_features()) is None


# What needs torch


def test_an_exported_model_reads_a_text_the_same_in_any_company(
    training: Any, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch", reason=ONLY_FOR_TRAINING)
    export, student = training("export", "torch", "onnx"), training("student", "torch")
    from gateway.classify.names.model.tagger import OnnxModel, Tagger
    from gateway.classify.names.model.words import cut
    from tests.unit.classify.names.knowing import plain_features

    torch.manual_seed(1)
    model = student.Student(torch.randn(200, 48), width=32)
    path = tmp_path / "first.onnx"
    export.export(model, path, plain_features())
    tagger = Tagger(plain_features(), OnnxModel(path))
    texts = [cut(line) for _, line in list(lines())[:40]]
    together = tagger.probabilities(texts)
    for words, found in zip(texts, together, strict=True):
        (alone,) = tagger.probabilities([words])
        assert np.abs(alone - found).max() < 1e-4


def test_a_larger_models_lower_layers_begin_the_second_one(training: Any) -> None:
    torch = pytest.importorskip("torch", reason=ONLY_FOR_TRAINING)
    transformer = training("transformer", "torch", "safetensors", "faker", "wordfreq")
    torch.manual_seed(2)
    teacher = transformer.Transformer(layers=3, longest=64).eval()
    with torch.no_grad():  # as narrow as the second model's pieces are
        teacher.pieces.weight.copy_(torch.randn(30522, 16) @ torch.randn(16, transformer.WIDTH))
    second = transformer.Transformer(layers=2, pieces_width=17, longest=32).eval()
    second.start_from(teacher.state_dict())
    teacher.layers = teacher.layers[:2]
    given = (torch.tensor([[101, 7, 9]]), torch.zeros(1, 3, 9, dtype=torch.long))
    with torch.no_grad():
        found = [model(*given, torch.tensor([[1, 2]])) for model in (teacher, second)]
    assert (found[0] - found[1]).abs().max() < 0.05


def test_an_exported_second_model_says_what_the_trained_one_says(
    training: Any, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch", reason=ONLY_FOR_TRAINING)
    export = training("export_second", "torch", "onnx", "safetensors", "faker", "wordfreq")
    transformer = training("transformer")
    from gateway.classify.names.model.second import OnnxSecond

    torch.manual_seed(3)
    model = transformer.Transformer(layers=1, pieces_width=16, longest=128).eval()
    path = tmp_path / "second.onnx"
    export.export(model, path)
    rows = np.random.default_rng(3).integers(0, 2, (20, 21), dtype=np.int32)
    rows[:, :4] *= np.arange(1, 5, dtype=np.int32) * 1_000
    with torch.no_grad():
        trained = model(*transformer.padded([transformer.flat(rows, 128)]))[0].numpy()
    assert np.abs(OnnxSecond(path)(rows) - trained).max() < 0.1
