"""What it costs to classify a call: `python -m loadtests.bench.classify [--texts FILE] [--json]`.

Processor time of this process in microseconds a call, the median of several rounds in which all
rows take turns, so that they share the machine's moods. Every call has a text of its own, made of
common words, or of the prompts in FILE (JSONL with `text`), unless the row says otherwise. The gate
is armed; a row whose calls would go to a worker ends where they would.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import itertools
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gateway.classify import Restricting
from gateway.classify.classifier import Classifier
from gateway.classify.gate.armed import ArmedGate
from gateway.classify.profile import Profile
from gateway.classify.scanner.recognizers import FirstVerdict
from gateway.classify.text.extract import extract_texts
from gateway.config import ClassifySettings, MemorySettings
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.types import DocumentCall, Finding, InferenceRequest, WireProtocol
from gateway.protocols import strictjson
from gateway.server.openai import documents as openai_documents

ROUNDS = 7
ROUND_S = 0.02  # processor time, about, of a row in a round
BYTES = (200, 2_000, 16_000, 64_000, 256_000, 1_000_000)
SHAPED_BYTES = (2_000, 20_000, 200_000)
TURNS = (1, 5, 10, 20, 40)
TURN_BYTES = 1_000
_MOST = 1 << 21
_WORDS = (  # noqa: SIM905 - a line instead of ten
    "the model should explain how a small river flows through quiet hills while people walk "
    "along its banks and talk about plans for summer gardens with stone paths under old trees "
    "near water"
).split()
_VALUES = {
    "card": "4111 1111 1111 1111",
    "address": "anna.kern@mail.example.org",
    "ssn": "536-90-4399",
    "iban": "DE89 3704 0044 0532 0130 00",
}
Step = Callable[[], object]


class Scans:
    """Says what it looks for; nothing here may reach it."""

    def __init__(self, settings: ClassifySettings) -> None:
        self.needs = FirstVerdict(settings, Profile.from_settings(settings).types).needs().packed()

    async def start(self) -> None: ...
    async def aclose(self) -> None: ...

    async def scan(
        self, texts: Sequence[str], budget_s: float, restricts: Restricting | None = None
    ) -> list[list[Finding]]:
        raise AssertionError("this call takes a scan")


class Texts:
    def __init__(self, prompts: Sequence[str] = ()) -> None:
        """Of common words, or of these."""
        self._random = random.Random(5)
        self._prompts = prompts

    def of(self, size: int) -> str:
        if not self._prompts:
            return " ".join(self._random.choices(_WORDS, k=size // 4 + 1))[:size]
        text = ""
        while len(text) < size:
            text += f"{self._random.choice(self._prompts)}\n\n"
        return text[:size]

    def bodies(self, size: int, count: int) -> list[bytes]:
        return [_body([self.of(size)]) for _ in range(count)]


def _body(texts: Sequence[str]) -> bytes:
    turns = [{"role": ("user", "assistant")[n % 2], "content": t} for n, t in enumerate(texts)]
    return json.dumps({"model": "m", "messages": turns}).encode()


def catalog(models: int = 1) -> Catalog:
    names = ["m", *(f"m-{n}" for n in range(1, models))]
    return Catalog(models={name: CatalogModel(name, "generate", ("gpu",)) for name in names})


def request(body: bytes, among: Catalog, tenant: str = "t") -> InferenceRequest:
    model, call = openai_documents.read(CHAT, strictjson.load_object(body), among)
    return InferenceRequest(
        "r", WireProtocol.OPENAI, tenant, model.name, call, Deadline.after(3600.0)
    )


async def classifier(among: Catalog, *, verdicts: int = 65_536) -> tuple[Classifier, ArmedGate]:
    settings = ClassifySettings(
        profile="patterns", max_scan_bytes=_MOST, memory=MemorySettings(verdicts=verdicts)
    )
    gate = ArmedGate()
    made = Classifier(settings, among, Scans(settings), time.monotonic, gate)
    await made.start()
    await gate.built()
    assert gate.armed
    return made, gate


def _taking_turns(step: Callable[[object], object], given: Sequence[object]) -> Step:
    turns = itertools.cycle(given)
    return lambda: step(next(turns))


def measured(rows: dict[str, Step]) -> dict[str, float]:
    """Microseconds of processor time for one step of each."""
    often = {}
    for name, step in rows.items():
        started_s = time.process_time()
        step()
        once_s = max(1e-7, time.process_time() - started_s)
        often[name] = max(1, min(2000, int(ROUND_S / once_s)))
    spent: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(ROUNDS):
        for name, step in rows.items():
            started_s = time.process_time()
            for _ in range(often[name]):
                step()
            spent[name].append((time.process_time() - started_s) / often[name] * 1e6)
    return {name: round(statistics.median(times), 2) for name, times in spent.items()}


async def rows(texts: Texts) -> dict[str, Step]:
    among = catalog()
    made, gate = await classifier(among)
    found = dict(_parts(texts, among, made, gate))
    found.update(_sizes(texts, among, made))
    found.update(_shapes(texts, among))
    found.update(_findings(texts, among, made))
    found.update(await _conversations(texts))
    found.update(await _many(texts))
    return found


def _parts(
    texts: Texts, among: Catalog, made: Classifier, gate: ArmedGate
) -> Iterator[tuple[str, Step]]:
    bodies = texts.bodies(2_000, 300)
    requests = [request(body, among) for body in bodies]
    calls = [one.payload for one in requests]
    documents = [call.document for call in calls if isinstance(call, DocumentCall)]
    model = among.find("m")
    said = [document["messages"][0]["content"] for document in documents]

    def whole(body: object) -> object:
        assert isinstance(body, bytes)
        return made.classify_now(request(body, among))

    steps: dict[str, tuple[Callable[..., object], Sequence[object]]] = {
        "2 KB: strict JSON": (strictjson.load_object, bodies),
        "2 KB: strict JSON, the wary way": (strictjson.read_warily, bodies),
        "2 KB: reading the document": (
            lambda d: openai_documents.read(CHAT, d, among),
            documents,
        ),
        "2 KB: extraction": (lambda call: extract_texts(call, model, _MOST), calls),
        "2 KB: taint": (made.taint.source, requests),
        "2 KB: gate": (gate.clear, said),
        "2 KB: the verdict (classify_now)": (made.classify_now, requests),
        "2 KB: body to verdict": (whole, bodies),
    }
    for name, (step, given) in steps.items():
        yield name, _taking_turns(step, given)


def _sizes(texts: Texts, among: Catalog, made: Classifier) -> Iterator[tuple[str, Step]]:
    for size in BYTES:
        bodies = texts.bodies(size, max(2, min(100, 2_000_000 // size)))
        requests = [request(body, among) for body in bodies]
        yield f"{size:,} B: strict JSON", _taking_turns(strictjson.load_object, bodies)  # type: ignore[arg-type]
        yield f"{size:,} B: the verdict", _taking_turns(made.classify_now, requests)  # type: ignore[arg-type]


def _shapes(texts: Texts, among: Catalog) -> Iterator[tuple[str, Step]]:
    """Reading alone, of as many bytes in many values: it costs ten times as much for ten times."""
    model = among.find("m")
    for size in SHAPED_BYTES:
        words = texts.of(size).split()
        parts = [{"type": "text", "text": word} for word in words]
        deep: object = words[0]
        for word in words[:50]:
            deep = [deep, word]
        shapes: dict[str, dict[str, object]] = {
            "messages of 20 B": {"messages": [_turn(" ".join(w)) for w in _by(4, words)]},
            "parts of a word": {"messages": [{"role": "user", "content": parts}]},
            "strings, 50 deep": {"tools": [deep] * (len(words) // 50)},
        }
        for name, shape in shapes.items():
            call = DocumentCall(CHAT, {"model": "m", **shape})
            yield (
                f"{size:,} B in {name}: extraction",
                functools.partial(extract_texts, call, model, _MOST),
            )


def _turn(said: str) -> dict[str, str]:
    return {"role": "user", "content": said}


def _by(count: int, words: Sequence[str]) -> Iterator[Sequence[str]]:
    return (words[at : at + count] for at in range(0, len(words), count))


def _findings(texts: Texts, among: Catalog, made: Classifier) -> Iterator[tuple[str, Step]]:
    for kind, value in _VALUES.items():
        bodies = [_body([f"{texts.of(1_000)} {value} {texts.of(1_000)}"]) for _ in range(100)]
        requests = [replace(request(body, among), explained=True) for body in bodies]
        yield f"2 KB with {kind}: the verdict", _taking_turns(made.classify_now, requests)  # type: ignore[arg-type]


async def _conversations(texts: Texts) -> dict[str, Step]:
    """The next turn of a conversation whose turns so far were classified, and the same without
    a memory: each step is the last two turns of another conversation."""
    found: dict[str, Step] = {}
    for remembered in (True, False):
        among = catalog()
        made, _ = await classifier(among, verdicts=65_536 if remembered else 0)
        for turns in TURNS:
            requests = []
            for _ in range(40):
                told = [texts.of(TURN_BYTES) for _ in range(turns)]
                for end in range(1, turns, 2):
                    made.classify_now(request(_body(told[:end]), among))
                requests.append(request(_body(told), among))
            name = f"turn {turns} of {TURN_BYTES:,} B"
            if remembered:
                found[f"{name}: never seen"] = _never_seen(made, requests)
                found[f"{name}: known"] = _taking_turns(made.classify_now, requests)  # type: ignore[arg-type]
            else:
                found[f"{name}: no memory"] = _taking_turns(made.classify_now, requests)  # type: ignore[arg-type]
    return found


def _never_seen(made: Classifier, requests: Sequence[InferenceRequest]) -> Step:
    """Each call is another tenant's, which makes it 3 us dearer than it is."""
    tenants, turns = itertools.count(), itertools.cycle(requests)
    return lambda: made.classify_now(replace(next(turns), tenant=f"n-{next(tenants)}"))


async def _many(texts: Texts) -> dict[str, Step]:
    found: dict[str, Step] = {}
    for models, tenants in ((1, 1), (1_000, 1), (1, 10_000)):
        among = catalog(models)
        made, _ = await classifier(among)
        for n in range(tenants):
            tainted = request(_body(["x"]), among, f"t-{n}")
            made.taint.mark(tainted, "entities")
        bodies = texts.bodies(2_000, 200)
        given = [request(body, among, f"t-{n % tenants}") for n, body in enumerate(bodies)]
        name = f"2 KB, {models:,} models, {tenants:,} tenants with taints: the verdict"
        found[name] = _taking_turns(made.classify_now, given)  # type: ignore[arg-type]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--texts", type=Path)
    given = parser.parse_args()
    prompts = given.texts.read_text("utf-8").splitlines() if given.texts else ()
    texts = Texts([json.loads(line)["text"] for line in prompts])
    found = measured(asyncio.run(rows(texts)))
    if given.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:62} {value:10.2f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
