"""What the first verdict costs: `python -m loadtests.classify.first_verdict [--texts FILE]`.

FILE is JSONL with `text` (and perhaps `benign_class`, of which `contains_pii` is left out); without
it prompts are made up. They are put together to texts of about 2 KB, no two of them the same. Each
text goes through the steps in turn, so that all of them share the machine's moods; of five rounds
the least counts for each text, and the mean and the median are over the texts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gateway.classify import Restricting
from gateway.classify.classifier import Classifier
from gateway.classify.gate.armed import ArmedGate
from gateway.classify.gate.gate import Gate
from gateway.classify.profile import Profile
from gateway.classify.scanner.recognizers import FirstVerdict
from gateway.config import ClassifySettings
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.types import DocumentCall, Finding, InferenceRequest, WireProtocol

SIZE = 2048
ROUNDS = 5
_MADE_UP = 200
_SENTENCE = (
    "the quick report about water systems in northern cities explains how pumps fail when winter "
    "comes early and what engineers do to keep homes warm while prices of energy rise again"
)


def texts(path: Path | None) -> list[str]:
    if path is None:
        rng = random.Random(1)
        return [" ".join(rng.choices(_SENTENCE.split(), k=SIZE // 6)) for _ in range(_MADE_UP)]
    with path.open() as lines:
        rows = [json.loads(line) for line in lines]
    prompts = [row["text"] for row in rows if row.get("benign_class") != "contains_pii"]
    return list(_joined(prompts))


def _joined(prompts: Sequence[str]) -> Iterator[str]:
    """Whole prompts, until there are about 2 KB of them."""
    text = ""
    for prompt in prompts:
        text = f"{text}\n\n{prompt}" if text else prompt
        if len(text) >= SIZE:
            yield text[:SIZE]
            text = ""


class Worker:
    """The scan of a worker without the process around it."""

    def __init__(self, scanner: FirstVerdict) -> None:
        self._scanner = scanner
        self.needs = scanner.needs().packed()

    async def start(self) -> None: ...

    async def scan(
        self, texts: Sequence[str], budget_s: float, restricts: Restricting | None = None
    ) -> list[list[Finding]]:
        return [self._scanner.scan(text) for text in texts]

    async def aclose(self) -> None: ...


def request(text: str) -> InferenceRequest:
    document = {
        "model": "chat",
        "messages": [
            {"role": "system", "content": "You are a helpful assistant."},
            {"role": "user", "content": text},
        ],
    }
    call = DocumentCall(CHAT, document)
    return InferenceRequest("r", WireProtocol.OPENAI, "t", "chat", call, Deadline.after(3600.0))


def _classifier(worker: Worker, gate: ArmedGate) -> Classifier:
    catalog = Catalog(models={"chat": CatalogModel("chat", "generate", ("gpu",))})
    return Classifier(ClassifySettings(), catalog, worker, time.monotonic, gate)


def measure(steps: dict[str, Callable[[str], object]], given: list[str]) -> dict[str, list[float]]:
    least = {name: [float("inf")] * len(given) for name in steps}
    for _ in range(ROUNDS):
        for at, text in enumerate(given):
            for name, step in steps.items():
                started_s = time.perf_counter()
                step(text)
                spent_us = (time.perf_counter() - started_s) * 1e6
                least[name][at] = min(least[name][at], spent_us)
    return least


async def figures(path: Path | None) -> dict[str, float]:
    given = texts(path)
    settings = ClassifySettings()
    scanner = FirstVerdict(settings, Profile.from_settings(settings).types)
    gate = ArmedGate()
    classifier = _classifier(Worker(scanner), gate)
    await classifier.start()
    await gate.built()
    requests = {text: request(text) for text in given}
    found = measure(_steps(gate, scanner, classifier, requests), given)
    await classifier.aclose()
    fired = sum(not gate.clear(text) for text in given)
    result = {"texts": len(given), "to_the_worker": fired / len(given)}
    for name, spent_us in found.items():
        result[f"{name}_mean_us"] = round(statistics.mean(spent_us), 2)
        result[f"{name}_median_us"] = round(statistics.median(spent_us), 2)
    return result


def _steps(
    gate: ArmedGate,
    scanner: FirstVerdict,
    classifier: Classifier,
    requests: dict[str, InferenceRequest],
) -> dict[str, Callable[[str], object]]:
    compiled: Gate | None = gate.gate
    assert compiled is not None

    def whole(text: str) -> None:
        """The coroutine never waits here, so one step runs it to its end."""
        coroutine = classifier.classify(requests[text])
        try:
            coroutine.send(None)
        except StopIteration:
            return
        raise AssertionError("it waited")

    def triggers(text: str) -> object:
        return compiled.compiled.ascii.find(compiled.compiled.alphabet.encode(text))

    def confirmed(text: str) -> object:
        return gate.clear(text) or scanner.scan(text)

    return {"triggers": triggers, "gate": gate.clear, "gate_and_scan": confirmed, "classify": whole}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = asyncio.run(figures(given.texts))
    if given.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:24} {value:10.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
