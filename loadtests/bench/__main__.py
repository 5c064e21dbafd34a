"""What each stage of a call costs by itself, in microseconds of this machine: `make bench`.

    python -m loadtests.bench [--json] [--only scan,decide]

A chat call with a prompt of 2 KB, no two of them the same, and an inference with one tensor. Stages
are timed in turns, each over all inputs, and the medians of the rounds count. What a stage costs
inside a gateway is more: there its data has left the processor's caches.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence

from tritonclient.grpc import service_pb2

from gateway.accounting.audit.chain import ChainHead
from gateway.classify.classifier import Classifier
from gateway.classify.gate.armed import ArmedGate
from gateway.classify.profile import Profile
from gateway.classify.scanner.recognizers import FirstVerdict
from gateway.config import ClassifySettings
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.types import (
    Classification,
    DocumentCall,
    Endpoint,
    EndpointSnapshot,
    InferenceRequest,
    Sensitivity,
    ServedModel,
    WireProtocol,
    Zone,
)
from gateway.endpoints.connectors.openai.sse import EventParser
from gateway.protocols import strictjson
from gateway.protocols.oip import grpc as oip_grpc
from gateway.protocols.oip import rest as oip_rest
from gateway.scheduling.routing.policy import Policy
from gateway.server.openai import documents as openai_documents
from loadtests.classify.first_verdict import Worker
from loadtests.load.messages import Shape, messages

_INPUTS, _ROUNDS = 200, 15
_CATALOG = Catalog(models={"echo": CatalogModel("echo", "generate", ("gpu", "cloud"))})

Stage = Callable[[int], object]
"""Its work on the n-th input."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", help="stages, with commas between")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = asyncio.run(_figures(args.only.split(",") if args.only else None))
    if args.json:
        print(json.dumps(found))
        return
    for name, us in found.items():
        print(f"{name:16}{us:>10.2f} us")


async def _figures(only: Sequence[str] | None) -> dict[str, float]:
    settings = ClassifySettings(profile="patterns")
    gate = ArmedGate()
    scanner = FirstVerdict(settings, Profile.from_settings(settings).types)
    # A memory without room for verdicts: the rounds read the same texts again.
    forgetful = settings.model_copy(
        update={"memory": settings.memory.model_copy(update={"verdicts": 0})}
    )
    classifier = Classifier(forgetful, _CATALOG, Worker(scanner), time.monotonic, gate)
    await classifier.start()
    await gate.built()
    try:
        stages = {**_of_documents(classifier, gate), **_of_tensors()}
        if only is not None:
            if unknown := set(only) - set(stages):
                sys.exit(f"no stage {', '.join(unknown)}; there is {', '.join(stages)}")
            stages = {name: stages[name] for name in only}
        return _medians_us(stages)
    finally:
        await classifier.aclose()


def _medians_us(stages: dict[str, Stage]) -> dict[str, float]:
    rounds: dict[str, list[float]] = {name: [] for name in stages}
    for _ in range(_ROUNDS):
        for name, stage in stages.items():
            began_s = time.thread_time()
            for at in range(_INPUTS):
                stage(at)
            rounds[name].append((time.thread_time() - began_s) / _INPUTS * 1e6)
    return {name: round(statistics.median(each), 3) for name, each in rounds.items()}


def _of_documents(classifier: Classifier, gate: ArmedGate) -> dict[str, Stage]:
    source = messages(Shape(), "127.0.0.1:1")
    bodies = [source.next().partition(b"\r\n\r\n")[2] for _ in range(_INPUTS)]
    documents = [strictjson.load_object(body) for body in bodies]
    texts = [document["messages"][0]["content"] for document in documents]
    requests = [_request(document) for document in documents]
    clear = Classification("r", Sensitivity.CLEAR, "clear")
    policy, states = Policy(), _states()
    event = b'data: {"choices":[{"index":0,"delta":{"content":" word"}}]}\n\n'
    events = EventParser(1 << 20)
    record, head = strictjson.dumps(_RECORD), ChainHead.empty()

    def classify(at: int) -> object:
        """The coroutine never waits here, so one step runs it to its end."""
        try:
            classifier.classify(requests[at]).send(None)
        except StopIteration as done:
            return done.value
        raise AssertionError("it waited")

    def one_event(at: int) -> object:
        events.feed(event)
        return events.next()

    found = classify(0)
    assert isinstance(found, Classification)
    assert not found.restricted, found.reason
    return {
        "parse": lambda at: strictjson.load_object(bodies[at]),
        "read": lambda at: openai_documents.read(CHAT, documents[at], _CATALOG),
        "scan": lambda at: gate.clear(texts[at]),
        "classify": classify,
        "decide": lambda at: policy.decide(requests[at], clear, states),
        "encode": lambda at: strictjson.dumps(documents[at]),
        "event": one_event,
        "seal": lambda at: head.add([record]),
    }


_RECORD = {
    "kind": "call",
    "id": "r" * 32,
    "tenant": "load",
    "model": "echo",
    "zones": ["cloud"],
    "reason": "cloud_only",
    "outcome": "served",
}


def _of_tensors() -> dict[str, Stage]:
    json_body = messages(Shape(kind="v2-json"), "h").next().partition(b"\r\n\r\n")[2]
    head, _, binary_body = messages(Shape(kind="v2-binary"), "h").next().partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"inference-header-content-length: ")[2].split(b"\r\n")[0])
    message = service_pb2.ModelInferRequest.FromString(messages(Shape(kind="grpc"), "h").next())
    call = oip_grpc.decode_request(message)
    return {
        "v2 json read": lambda at: oip_rest.decode_request(json_body),
        "v2 binary read": lambda at: oip_rest.decode_request(binary_body, length),
        "v2 binary write": lambda at: oip_rest.encode_request(call),
        "gRPC read": lambda at: oip_grpc.decode_request(message),
        "gRPC write": lambda at: oip_grpc.encode_request(call, "echo"),
    }


def _request(document: dict[str, object]) -> InferenceRequest:
    call = DocumentCall(CHAT, document)
    return InferenceRequest("r", WireProtocol.OPENAI, "t", "echo", call, Deadline.after(3600.0))


def _states() -> tuple[EndpointSnapshot, ...]:
    return (
        EndpointSnapshot(
            Endpoint("gpu", Zone.ONPREM, "triton"),
            ServedModel("echo"),
            True,
            predicted_s=0.1,
            p50_s=0.05,
        ),
        EndpointSnapshot(
            Endpoint("cloud", Zone.CLOUD, "openai"),
            ServedModel("echo"),
            True,
            predicted_s=0.3,
            p50_s=0.2,
            price_usd=0.01,
        ),
    )


if __name__ == "__main__":
    main()
