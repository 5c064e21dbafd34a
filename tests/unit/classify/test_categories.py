"""Calls of the operator's own categories: restricted, or counted, and never left unread (C21)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gateway.app.scanner_set import Scanning
from gateway.classify import NoScan, ScannerUnfit
from gateway.classify.categories.embeddings import LocalEmbeddings
from gateway.classify.categories.matching import Category, Matcher
from gateway.classify.categories.nearness import fit
from gateway.classify.categories.reader import CategoryReader
from gateway.classify.categories.values import ValueTable
from gateway.classify.verdicts.policies import CallerPolicies
from gateway.config import ClassifySettings, Settings
from gateway.config.model_catalog import Catalog
from gateway.core import ambient
from gateway.core.operations.chat import CHAT
from gateway.core.types import Classification, Finding, Tensor, TensorCall
from gateway.protocols.oip.datatypes import join
from tests.unit.classify import category_rig as rig
from tests.unit.classify import written_forms as forms
from tests.unit.classify.corpus import Said, positions

NAME = Said("Marian Keller Oak Harbor", 7301954)
VALUES = [NAME.text, str(NAME.number)]


class FindsNothing:
    """Patterns that are in no text, so that categories alone restrict."""

    async def start(self) -> None: ...

    async def scan(self, texts: Sequence[str], *_: Any) -> list[list[Finding]]:
        return [[] for _ in texts]

    async def aclose(self) -> None: ...


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rig.model(tmp_path_factory.mktemp("embeddings") / "1")


def classified(kit: Any, settings: ClassifySettings, *requests: Any) -> list[Classification]:
    """As calls that would leave are."""

    async def run() -> list[Classification]:
        classifier = kit.make_classifier(FindsNothing(), settings)
        await classifier._categories.start()  # alone: there is no worker to start
        try:
            made = []
            for request in requests:
                first = await classifier.classify(request)
                made.append(await classifier.complete(request, first))
            return made
        finally:
            await classifier.aclose()

    return asyncio.run(run())


def say(kit: Any, *contents: str) -> Any:
    return kit.make_request({"messages": [{"role": "user", "content": c} for c in contents]})


def verdicts(
    kit: Any, settings: ClassifySettings, *contents: str
) -> list[tuple[str, dict[str, int]]]:
    made = classified(kit, settings, *(say(kit, content) for content in contents))
    return [(one.reason, dict(one.entities)) for one in made]


# What restricts


def test_a_value_of_a_table_restricts_and_other_words_do_not(kit: Any, tmp_path: Path) -> None:
    settings = rig.classify(categories={"people": rig.table(tmp_path, VALUES)})
    found, other = verdicts(kit, settings, "ask marian KELLER, Oak-Harbor", "ask Marian")
    assert found == ("category:people", {"category:people": 1})
    assert other == ("clear", {})


def test_what_is_near_to_examples_restricts(kit: Any, tmp_path: Path, model: Path) -> None:
    settings = rig.classify(embeddings=model, categories={"zebra": rig.by_examples(tmp_path)})
    near, far = verdicts(
        kit, settings, "dates of the zebra project", "What is the capital of Australia?"
    )
    assert near[0] == "category:zebra"
    assert far == ("clear", {})


def test_a_label_counts_and_does_not_restrict(kit: Any, tmp_path: Path, model: Path) -> None:
    settings = rig.classify(
        embeddings=model,
        categories={
            "zebra": rig.by_examples(tmp_path, action="label"),
            "people": rig.table(tmp_path, VALUES) | {"action": "label"},
        },
    )
    ((reason, counts),) = verdicts(
        kit, settings, f"{'Words ' * 20}of {NAME.text}. Dates of the zebra project."
    )
    assert reason == "clear"
    assert counts == {"category:zebra": 1, "category:people": 1}


def test_a_sentence_in_a_long_text_is_near(kit: Any, tmp_path: Path, model: Path) -> None:
    settings = rig.classify(embeddings=model, categories={"zebra": rig.by_examples(tmp_path)})
    filler = "The recipe calls for two eggs and flour. The river flows into the sea. " * 40
    long = f"{filler}Dates of the zebra project. {filler}"
    assert verdicts(kit, settings, long)[0][0] == "category:zebra"


def test_what_was_read_before_is_known_again(kit: Any, tmp_path: Path) -> None:
    settings = rig.classify(
        categories={"people": rig.table(tmp_path, VALUES) | {"action": "label"}}
    )
    long = f"{NAME.text} and then {'other words ' * 60}"
    assert verdicts(kit, settings, long, long) == [("clear", {"category:people": 1})] * 2


def test_a_conversation_that_was_restricted_stays_so(kit: Any, tmp_path: Path) -> None:
    settings = rig.classify(categories={"people": rig.table(tmp_path, VALUES)})
    first = say(kit, NAME.text)
    turns = [NAME.text, "fine", "and now something else"]
    last = kit.make_request({"messages": [{"role": "user", "content": t} for t in turns]})
    assert [c.reason for c in classified(kit, settings, first, last)] == [
        "category:people",
        "tainted",
    ]


def test_a_call_with_a_category_s_data_does_not_leave_with_surrogates(
    kit: Any, tmp_path: Path
) -> None:
    from dataclasses import replace

    from gateway.classify.pseudonyms.pseudonymiser import _eligible

    settings = rig.classify(categories={"people": rig.table(tmp_path, VALUES)})
    request = replace(say(kit, NAME.text), pseudonymise=True)
    (classification,) = classified(kit, settings, request)
    assert classification.restricted
    assert not _eligible(request, classification)


# Wherever it stands (the matrix)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Matcher:
    its = rig.table(tmp_path_factory.mktemp("values"), VALUES)
    return Matcher([Category("people", ValueTable.load(its["values"], its["key_file"]))], None)


@pytest.mark.parametrize("name", forms.WHOLE)
def test_a_value_in_every_form(people: Matcher, name: str) -> None:
    text = forms.WHOLE[name](f"ask {NAME.text} about it")
    assert people.findings(text)
    assert people.findings(f"Please look at this: {text} and answer.")


def test_a_value_in_every_field(kit: Any, tmp_path: Path) -> None:
    settings = rig.classify(categories={"people": rig.table(tmp_path, VALUES)})
    places = positions(NAME)
    requests = [kit.make_request({"model": "chat", **b}, operation=op) for op, b in places.values()]
    made = classified(kit, settings, *requests)
    assert [p for p, one in zip(places, made, strict=True) if not one.restricted] == []


def test_a_value_in_tensors(kit: Any, tmp_path: Path) -> None:
    settings = rig.classify(categories={"people": rig.table(tmp_path, VALUES)})
    text = NAME.text.encode()
    tensors = [
        Tensor("TEXT", "BYTES", (1,), join([text])),
        Tensor("CODES", "UINT8", (len(text),), text),
        Tensor("CODES", "INT32", (len(text),), np.frombuffer(text, "u1").astype("<i4").tobytes()),
        Tensor("NUMBER", "INT64", (1,), np.asarray([NAME.number], "<i8").tobytes()),
    ]
    requests = [kit.make_request(TensorCall((tensor,), ()), model="open") for tensor in tensors]
    reasons = [one.reason for one in classified(kit, settings, *requests)]
    assert reasons == ["category:people"] * len(tensors)


def test_a_value_over_two_strings(kit: Any, tmp_path: Path) -> None:
    settings = rig.classify(categories={"people": rig.table(tmp_path, VALUES)})
    parts = [{"type": "text", "text": t} for t in ("ask Marian Keller", "Oak Harbor of it")]
    request = kit.make_request({"messages": [{"role": "user", "content": parts}]}, operation=CHAT)
    assert classified(kit, settings, request)[0].reason == "category:people"


# What cannot be read


def test_a_model_that_answers_nonsense_restricts(kit: Any, tmp_path: Path, model: Path) -> None:
    settings = rig.classify(embeddings=model, categories={"zebra": rig.by_examples(tmp_path)})
    assert verdicts(kit, settings, f"this goes {rig.NOWHERE}") == [("failed", {})]


def test_a_label_that_could_not_be_read_is_counted(kit: Any, tmp_path: Path, model: Path) -> None:
    settings = rig.classify(
        embeddings=model, categories={"zebra": rig.by_examples(tmp_path, action="label")}
    )
    assert verdicts(kit, settings, f"this goes {rig.NOWHERE}") == [
        ("clear", {"category:_unread": 1})
    ]


def test_a_reader_that_is_not_started_or_closed_or_late_has_no_answer(
    tmp_path: Path, model: Path
) -> None:
    settings = rig.classify(embeddings=model, categories={"zebra": rig.by_examples(tmp_path)})

    async def reasons() -> list[str]:
        reader = CategoryReader(settings)
        made = [await no_scan(reader, 1.0)]
        await reader.start()
        made.append(await no_scan(reader, 0.0))
        made.append(await no_scan(reader, 1e-6))
        await reader.aclose()
        return [*made, await no_scan(reader, 1.0)]

    async def no_scan(reader: CategoryReader, budget_s: float) -> str:
        with pytest.raises(NoScan) as raised:
            await reader.find(["the zebra project " * 400], budget_s)
        return raised.value.reason

    assert asyncio.run(reasons()) == ["failed", "late", "late", "failed"]


def test_a_classifier_with_categories_reads_them_though_nobody_gave_it_a_reader(
    kit: Any, tmp_path: Path
) -> None:
    settings = rig.classify(categories={"people": rig.table(tmp_path, VALUES)})

    async def unstarted() -> str:
        classifier = kit.make_classifier(FindsNothing(), settings)
        request = say(kit, "some words")
        first = await classifier.classify(request)
        assert not first.complete
        reason: str = (await classifier.complete(request, first)).reason
        return reason

    assert asyncio.run(unstarted()) == "failed"


def test_what_is_past_the_model_s_length_is_read_too(model: Path) -> None:
    embeddings = LocalEmbeddings(model)
    head = "the recipe calls for two eggs " * 50
    plain, longer = embeddings.embed([head, head + "zebra project " * 100])
    assert float(plain @ longer) < 0.9
    assert np.allclose(np.linalg.norm([plain, longer], axis=1), 1)


# Examples and thresholds


def test_leave_one_out_is_what_fitting_without_each_one_gives() -> None:
    """The score under the rule of all others, by fitting that rule."""
    rng = np.random.default_rng(3)

    def unit(rows: Any) -> Any:
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    near = unit(rng.normal(size=(8, 6)) + 3)
    benign = unit(rng.normal(size=(40, 6)) - 1)
    whole = fit("x", near, benign)
    assert whole.caught == whole.count == 8
    assert whole.scores(near).min() > whole.threshold
    assert (whole.scores(benign) >= whole.threshold).mean() <= 0.05


def test_examples_that_are_not_alike_are_refused(tmp_path: Path, model: Path) -> None:
    path = tmp_path / "mixed.txt"
    unlike = "zebra\nWhat is a patent?\nHow deep is the sea?\nName three rivers.\nWater the lawn.\n"
    path.write_text(unlike)
    settings = rig.classify(embeddings=model, categories={"mixed": {"examples": path}})
    with pytest.raises(ScannerUnfit, match=r"mixed: only \d of 5 examples are near"):
        Matcher.load(settings)


def test_an_operator_s_own_threshold_counts(tmp_path: Path, model: Path) -> None:
    settings = rig.classify(
        embeddings=model, categories={"zebra": rig.by_examples(tmp_path, threshold=0.01)}
    )
    assert Matcher.load(settings).findings("What is the capital of Australia?")


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("few.txt", "one\ntwo\n\ntwo\nthree\nfour\n", "4 examples"),
        ("bad.jsonl", '{"text": "a"}\nnot json\n', "cannot be read"),
        ("bad.jsonl", '{"words": "a"}\n', "cannot be read"),
        ("bad.jsonl", '{"text": 7}\n', "a string"),
        ("long.txt", "\n".join(["short", "x" * 3000, *"abcde"]), "over 2000"),
    ],
)
def test_examples_that_cannot_be_used_are_refused(
    tmp_path: Path, model: Path, name: str, content: str, why: str
) -> None:
    (tmp_path / name).write_text(content)
    settings = rig.classify(embeddings=model, categories={"x": {"examples": tmp_path / name}})
    with pytest.raises(ScannerUnfit, match=why):
        Matcher.load(settings)


def test_a_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    settings = rig.classify(embeddings=tmp_path, categories={"x": rig.by_examples(tmp_path)})
    with pytest.raises(ScannerUnfit, match=r"has no model\.onnx"):
        Matcher.load(settings)


# Versions


def test_verdicts_are_of_what_is_in_the_files(tmp_path: Path) -> None:
    settings = rig.classify(categories={"people": rig.table(tmp_path, VALUES)})
    before = CallerPolicies(settings, (), has_names=False).version
    assert CallerPolicies(settings, (), has_names=False).version == before
    rig.table(tmp_path, ["Somebody Else"])
    assert CallerPolicies(settings, (), has_names=False).version != before


def test_a_reload_takes_what_is_in_the_files_now(tmp_path: Path) -> None:
    document = {
        "endpoints": {"gpu": {"kind": "openai", "zone": "onprem", "url": "http://127.0.0.1:9"}},
        "models": {"m": {"task": "generate", "served_by": [{"endpoint": "gpu"}]}},
    }
    classify = rig.classify(categories={"people": rig.table(tmp_path, VALUES)})
    settings = Settings(**document, classify=classify)
    scanning = Scanning(settings, (), None, Catalog(models={}), ambient.monotonic_s, lambda: None)
    assert scanning.fits(settings, (), None)
    rig.table(tmp_path, ["Somebody Else"])
    assert not scanning.fits(settings, (), None)


def test_a_long_text_is_read_part_by_part(model: Path, tmp_path: Path) -> None:
    settings = rig.classify(embeddings=model, categories={"zebra": rig.by_examples(tmp_path)})
    looks: list[None] = []
    text = "The recipe calls for two eggs and for flour, and the river flows into the sea. " * 1000
    matcher = Matcher.load(settings)
    assert matcher.findings(text, lambda: looks.append(None)) == []
    assert len(looks) > 5


def test_counterexamples_are_told_from_examples(model: Path, tmp_path: Path) -> None:
    harmless = tmp_path / "harmless.txt"
    lines = ("drink at the river", "sleep in the grass", "eat in the morning", "run in the hills")
    harmless.write_text("\n".join(f"the zebra and its young {line}" for line in (*lines, "play")))
    zebra = rig.by_examples(tmp_path)
    text = "the zebra and its young rest"

    def near(**more: Any) -> bool:
        settings = rig.classify(embeddings=model, categories={"zebra": zebra | more})
        matcher = Matcher.load(settings)
        assert matcher.findings("dates of the zebra project")
        return bool(matcher.findings(text))

    assert near()
    assert not near(counterexamples=harmless)
