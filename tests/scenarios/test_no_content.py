"""What a caller says is nowhere but in the answers to that caller (C12).

Every call carries words of its own, in every place that a caller can fill, through all fronts, and
many of the servers behind fail with these words in their errors. Afterwards everything that the
gateway wrote or told anybody is searched for them, in all encodings.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.grpc import service_pb2, service_pb2_grpc

from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.demo.cloud.process import SimulatedCloud
from gateway.demo.cloud.search import encodings
from tests.live import (
    ROOT,
    LiveGateway,
    LoopThread,
    descendants,
    serving,
    settings,
    simulated_cloud,
    wait_until,
)
from tests.scenarios.echoing_servers import GRPC_STATUSES, HTTP_WAYS, echoing_grpc, echoing_http
from tests.unit.classify.corpus import Said, positions

if TYPE_CHECKING:
    from tests.otlp import Receiver

CARD = "4111 1111 1111 1111"
ROUTES: dict[OperationSpec, tuple[str, dict[str, Any]]] = {
    CHAT: ("/v1/chat/completions", {"model": "scribe", "max_tokens": 4}),
    COMPLETIONS: ("/v1/completions", {"model": "scribe", "max_tokens": 4}),
    RESPONSES: ("/v1/responses", {"model": "scribe", "max_output_tokens": 16}),
    EMBEDDINGS: ("/v1/embeddings", {"model": "minilm"}),
}


@dataclass
class Talk:
    """Calls with words of their own, and what came back for each."""

    gateway: LiveGateway
    answers: dict[str, bytes] = field(default_factory=dict)

    def words(self) -> str:
        return f"quokka{len(self.answers):04}zanzibar"

    def http(self, method: str, path: str, words: str, **request: Any) -> None:
        told = self.gateway.client.request(method, path, **request)
        head = "\n".join(f"{k}: {v}" for k, v in told.headers.items())
        self.answers[words] = head.encode() + b"\n" + told.content

    def grpc(self, words: str, method: str, message: Any, **metadata: str) -> None:
        with grpc.insecure_channel(self.gateway.grpc_target) as channel:
            call: Any = channel.unary_unary(
                f"/inference.GRPCInferenceService/{method}",
                request_serializer=bytes,
                response_deserializer=bytes,
            )
            raw = message if isinstance(message, bytes) else message.SerializeToString()
            done = call.future(raw, timeout=20, metadata=tuple(metadata.items()))
            done.exception()
            told = [str(done.details()), *map(str, done.trailing_metadata() or ())]
            answer = done.result() if done.code() is grpc.StatusCode.OK else b""
            self.answers[words] = "\n".join(told).encode() + answer

    def raw(self, words: str, sent: bytes) -> None:
        host, port = self.gateway.http_url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 10) as wire:
            wire.sendall(sent)
            wire.shutdown(socket.SHUT_WR)
            received = b""
            while part := wire.recv(65536):
                received += part
        self.answers[words] = received


@dataclass(frozen=True, slots=True)
class Aftermath:
    answers: Mapping[str, bytes]
    written: Mapping[str, bytes] = field(repr=False)
    left: frozenset[str]  # the words that reached the cloud


@pytest.fixture(scope="module")
def aftermath(
    loop_thread: LoopThread, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Aftermath]:
    scratch = tmp_path_factory.mktemp("content")
    with (
        simulated_cloud(loop_thread) as cloud,
        echoing_http() as http,
        echoing_grpc() as rpc,
        _collecting() as receiver,
    ):
        document = settings(cloud, scratch, ["simple_string"], log={"level": "debug"})
        document = _with_echoes(document, http, rpc)
        if receiver is not None:
            document["telemetry"] = {
                "otlp_url": receiver.url, "trace_ratio": 1.0, "push_metrics": True,
                "push_metrics_s": 1.0,
            }  # fmt: skip
        with serving(document, scratch) as gateway:
            talk = Talk(gateway)
            _positions(talk)
            _tensors(talk)
            _heads(talk)
            _mistakes(talk)
            _echoes(talk)
            written = {f"explain {i}": told for i, told in enumerate(_explained(talk, scratch))}
            written["metrics"] = gateway.metrics().encode()
            written["status"] = gateway.client.get("/status").content
            files = _open_files(gateway.process.pid)
            for pid in (gateway.process.pid, *descendants(gateway.process.pid)):
                written[f"environ of {pid}"] = Path(f"/proc/{pid}/environ").read_bytes()
                written[f"command of {pid}"] = Path(f"/proc/{pid}/cmdline").read_bytes()
                written[f"limits of {pid}"] = Path(f"/proc/{pid}/limits").read_bytes()
            if receiver is not None:
                _all_traces_sent(talk, receiver)
                written["traces"] = b"\n".join(receiver.raw)
                written["telemetry's headers"] = repr(receiver.headers).encode()
        files |= {p for p in scratch.rglob("*") if p.is_file() and p.parent.name != "said"}
        for path in files:
            with contextlib.suppress(FileNotFoundError):
                written[path.name] = path.read_bytes()
        yield Aftermath(talk.answers, written, _left(loop_thread, cloud, talk.answers))


def _collecting() -> contextlib.AbstractContextManager[Receiver | None]:
    """None where the extra otel is not installed: all the rest is searched all the same."""
    try:
        from tests.otlp import collector  # needs that extra
    except ModuleNotFoundError:
        return contextlib.nullcontext()
    return collector()


def _all_traces_sent(talk: Talk, receiver: Receiver) -> None:
    """What has come before one that is sent last has been sent."""
    body = {"model": "minilm", "input": "hi"}
    last = talk.gateway.client.post("/v1/embeddings", json=body).headers["traceparent"][3:35]
    wait_until(lambda: receiver.spans(last), 20.0)
    wait_until(lambda: receiver.metrics, 20.0)


def _with_echoes(document: dict[str, Any], http: str, rpc: str) -> dict[str, Any]:
    endpoints, models = document["endpoints"], document["models"]
    for way in HTTP_WAYS:
        for kind, task in (("openai", "generate"), ("kserve", "infer")):
            name = f"echo-{kind}-{way}"
            endpoints[name] = {"kind": kind, "zone": "onprem", "url": http}
            models[name] = {
                "task": task,
                "text_inputs": ["text"],
                "served_by": [{"endpoint": name}],
            }
    for status in GRPC_STATUSES:
        name = f"echo-grpc-{status}"
        endpoints[name] = {"kind": "kserve", "zone": "onprem", "grpc": rpc}
        models[name] = {"text_inputs": ["text"], "served_by": [{"endpoint": name}]}
    document["routing"] = {"policy": "static_split"}  # so clear calls go to the cloud
    return document


def _positions(talk: Talk) -> None:
    """Every position of a document, once clear (hence to the cloud) and once restricted."""
    for name in positions(Said("a b c d", 1)):
        for more in ("", f" {CARD}"):
            words = talk.words()
            # One word, so that no position splits it; the number is the caller's too.
            operation, body = positions(Said(f"{words}{more}", 1))[name]
            path, settled = ROUTES[operation]
            talk.http("POST", path, words, json={**settled, **body})
    for name in ("user text", "completions prompt", "responses input"):
        words = talk.words()
        operation, body = positions(Said(f"{words} {CARD}", 1))[name]
        path, settled = ROUTES[operation]
        talk.http("POST", path, words, json={**settled, **body, "stream": True})


def _tensor(text: str, **more: Any) -> dict[str, Any]:
    return {"name": "text", "datatype": "BYTES", "shape": [1, 1], "data": [text], **more}


def _message(text: str, model: str = "minilm", call: str = "") -> Any:
    given = grpcclient.InferInput("text", [1, 1], "BYTES")
    given.set_data_from_numpy(np.array([[text.encode()]], dtype=np.object_))
    message = service_pb2.ModelInferRequest(model_name=model, id=call)
    message.inputs.append(given._get_tensor())
    message.raw_input_contents.append(given._get_content())
    return message


def _tensors(talk: Talk) -> None:
    for path in ("/v2/models/minilm/infer", "/v2/models/simple_string/infer"):
        for make in (
            lambda w: {"inputs": [_tensor(w)]},
            lambda w: {"inputs": [_tensor(f"{w} {CARD}")]},
            lambda w: {"id": w, "inputs": [_tensor("hi")]},
            lambda w: {"inputs": [_tensor("hi", name=w)]},
            lambda w: {"inputs": [_tensor("hi")], "outputs": [{"name": w}]},
            lambda w: {"parameters": {w: w}, "inputs": [_tensor("hi")]},
            lambda w: {"inputs": [_tensor("hi", parameters={"content_type": w, w: 1})]},
            lambda w: {"inputs": [_tensor("hi")], "outputs": [{"name": "o", "parameters": {w: w}}]},
            lambda w: {"parameters": {"sequence_id": w}, "inputs": [_tensor("hi")]},
        ):
            words = talk.words()
            talk.http("POST", path, words, json=make(words))
    words = talk.words()
    talk.grpc(words, "ModelInfer", _message(words))
    words = talk.words()
    talk.grpc(words, "ModelInfer", _message(f"{words} {CARD}", call=words))
    for given in (
        lambda m, w: m.parameters["sequence_id"].__setattr__("string_param", w),
        lambda m, w: m.parameters[w].__setattr__("string_param", w),
        lambda m, w: m.inputs[0].parameters[w].__setattr__("string_param", w),
        lambda m, w: m.outputs.add(name=w).parameters[w].__setattr__("string_param", w),
        lambda m, w: m.inputs[0].__setattr__("name", w),
        lambda m, w: m.inputs[0].__setattr__("datatype", w),
        lambda m, w: m.__setattr__("model_version", w),
        lambda m, w: m.raw_input_contents.append(w.encode()),
    ):
        words = talk.words()
        message = _message("hi")
        given(message, words)  # type: ignore[no-untyped-call]
        talk.grpc(words, "ModelInfer", message)
    words = talk.words()
    with grpc.insecure_channel(talk.gateway.grpc_target) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        messages = [_message(words, call=words), _message(f"{words} {CARD}", model=words)]
        answers = [a.SerializeToString() for a in stub.ModelStreamInfer(iter(messages), timeout=20)]
    talk.answers[words] = b"\n".join(answers)


def _heads(talk: Talk) -> None:
    """Words in every header that is read, and in some that are not."""
    body = {"model": "minilm", "input": "hi"}
    names = ["x-request-id", "traceparent", "tracestate", "baggage", "authorization", "user-agent"]
    names += ["x-latency-budget-ms", "x-stainless-read-timeout", "x-spillway-placement", "cookie"]
    names += ["x-spillway-spill", "x-spillway-priority", "content-type", "accept", "referer"]
    names += ["content-encoding", "accept-encoding", "inference-header-content-length", "x-any"]
    for name in names:
        for path, said in (
            ("/v1/embeddings", body),
            ("/v2/models/minilm/infer", {"inputs": [_tensor("hi")]}),
        ):
            words = talk.words()
            content = json.dumps(said).encode()
            headers = {"content-type": "application/json", name: f"Bearer {words}"}
            talk.http("POST", path, words, content=content, headers=headers)
    for name in ("x-request-id", "traceparent", "authorization", "x-latency-budget-ms", "x-any"):
        words = talk.words()
        talk.grpc(words, "ModelInfer", _message("hi"), **{name: words})


def _mistakes(talk: Talk) -> None:
    """Calls that the gateway refuses: what it says of them must not be kept."""

    def post(path: str, words: str, content: bytes) -> None:
        headers = {"content-type": "application/json"}
        talk.http("POST", path, words, content=content, headers=headers)

    for path in ("/v1/chat/completions", "/v1/embeddings", "/v2/models/minilm/infer"):
        for template in (
            '{"model": "W", "messages": "W", "inputs": "W", "input": 7}',
            '{"W": 1, "W": 2}',
            '{"model": "minilm", "input": "W"',
            "W",
            '["W"]',
            '{"model": "W", "input": "hi"}',
            '{"model": "scribe", "messages": [{"role": 7, "content": "W"}]}',
            '{"inputs": [{"name": "W", "datatype": "W", "shape": ["W"], "data": ["W"]}]}',
            '{"inputs": [{"name": "W", "datatype": "INT32", "shape": [1], "data": ["W"]}]}',
            '{"inputs": [{"name": "W", "datatype": "BYTES", "shape": [9], "data": ["W"]}]}',
            '{"inputs": [], "parameters": {"shared_memory_region": "W"}, "W": 1}',
        ):  # fmt: skip
            words = talk.words()
            post(path, words, template.replace("W", words).encode())
        words = talk.words()
        post(path, words, words.encode() + b"\xff\xfe")
    for path in ("/v1/W", "/v2/models/W/infer", "/v2/models/W", "/W", "/v1/models/W", "/status?q=W",
                 "/v2/repository/models/W/load", "/v2/models/minilm/versions/W/infer"):  # fmt: skip
        for method in ("GET", "POST", "DELETE"):
            words = talk.words()
            talk.http(method, path.replace("W", words), words)
    for sent in (b"W / HTTP/1.1\r\n\r\n", b"GET /W HTTP/9.9\r\n\r\n", b"GET /\x00W\r\n\r\n",
                 b"POST /v1/embeddings HTTP/1.1\r\nhost: a\r\ncontent-length: W\r\n\r\n",
                 b"POST /v1/embeddings HTTP/1.1\r\nhost: a\r\nhost: W\r\n\r\n"):  # fmt: skip
        words = talk.words()
        talk.raw(words, sent.replace(b"W", words.encode()))
    words = talk.words()
    talk.grpc(words, "ModelInfer", _message("hi", model=words))
    words = talk.words()
    talk.grpc(words, "ModelInfer", words.encode())
    words = talk.words()
    talk.grpc(words, "ModelMetadata", service_pb2.ModelMetadataRequest(name=words))
    words = talk.words()
    load = service_pb2.RepositoryModelLoadRequest(model_name=words)
    talk.grpc(words, "RepositoryModelLoad", load)
    words = talk.words()
    talk.grpc(words, words, b"")


def _echoes(talk: Talk) -> None:
    for way in HTTP_WAYS:
        for streamed in (False, True):
            words = talk.words()
            body = {
                "model": f"echo-openai-{way}",
                "stream": streamed,
                "messages": [{"role": "user", "content": f"{words} {CARD}"}],
            }
            talk.http("POST", "/v1/chat/completions", words, json=body)
        words = talk.words()
        path = f"/v2/models/echo-kserve-{way}/infer"
        talk.http("POST", path, words, json={"inputs": [_tensor(f"{words} {CARD}")]})
        words = talk.words()
        message = _message(f"{words} {CARD}", f"echo-kserve-{way}")
        talk.grpc(words, "ModelInfer", message)
    for status in GRPC_STATUSES:
        words = talk.words()
        talk.grpc(words, "ModelInfer", _message(f"{words} {CARD}", f"echo-grpc-{status}", words))
        words = talk.words()
        path = f"/v2/models/echo-grpc-{status}/infer"
        talk.http("POST", path, words, json={"inputs": [_tensor(f"{words} {CARD}")]})


def _explained(talk: Talk, scratch: Path) -> Iterator[bytes]:
    """What `explain` says, of a running gateway and by the command; not even its caller's words."""
    (scratch / "said").mkdir()
    for at, (path, body) in enumerate(
        (
            ("/v1/embeddings", {"model": "minilm", "input": "W"}),
            ("/v1/embeddings", {"model": "minilm", "input": f"W {CARD}", "user": "W"}),
            ("/v2/models/minilm/infer", {"id": "W", "inputs": [_tensor(f"W {CARD}")]}),
            ("/v1/embeddings", {"model": "W", "input": "W"}),
            ("/v1/W", {"W": "W"}),
        )
    ):
        words = talk.words()
        document = json.dumps({"path": path, "headers": {"x-any": "W"}, "body": body})
        text = document.replace('W"', f'{words}"').replace(f"W {CARD}", f"{words} {CARD}")
        told = talk.gateway.client.post("/spillway/explain", content=text)
        talk.answers[words] = told.content
        yield told.content
        file = scratch / "said" / f"{at}.json"
        file.write_text(text)
        command = [sys.executable, "-m", "gateway", "explain", str(file)]
        for more in ([], ["--json"]) if at < 2 else ():  # each starts a process
            done = subprocess.run(
                [*command, "--url", talk.gateway.http_url, *more],
                cwd=ROOT,
                capture_output=True,
                timeout=60,
                check=False,
            )
            yield done.stdout + done.stderr


def _open_files(pid: int) -> set[Path]:
    """Files on disk that a process or one of its descendants has open for writing."""
    found: set[Path] = set()
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                path = Path(os.readlink(entry))
                flags = int((entry.parents[1] / "fdinfo" / entry.name).read_text().split()[3], 8)
                regular = stat.S_ISREG(entry.stat().st_mode)
                if regular and flags & os.O_ACCMODE and not path.is_relative_to("/dev/shm"):
                    found.add(path)
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found |= _open_files(int(child))
    return found


def _left(loop: LoopThread, cloud: SimulatedCloud, answers: Mapping[str, bytes]) -> frozenset[str]:
    return frozenset(hit.needle for hit in loop.run(cloud.search([*answers, CARD])))


def _said_in(haystack: bytes, words: str) -> bool:
    return any(form in haystack for _, form in encodings(words))


def _all_said_in(haystack: bytes, words: Mapping[str, bytes]) -> list[str]:
    """The words that occur, in any encoding. What all have in common is looked for first."""
    if not any(_said_in(haystack, part) for part in ("quokka", "zanzibar")):
        return []
    return [w for w in words if _said_in(haystack, w)] or ["a part of some"]


def test_the_words_reached_callers_and_cloud_or_this_would_prove_nothing(
    aftermath: Aftermath,
) -> None:
    echoed = [w for w, answer in aftermath.answers.items() if _said_in(answer, w)]
    assert len(aftermath.answers) > 250
    assert len(echoed) > 30  # errors of servers, handed on to whoever caused them
    assert len(aftermath.left) > 40  # the clear calls
    assert CARD not in aftermath.left


def test_the_log_was_there_to_be_searched(aftermath: Aftermath) -> None:
    assert len(aftermath.written["gateway.log"]) > 1000
    assert aftermath.written["000000000000.jsonl"].count(b"\n") > 150
    assert b"spillway_calls_total" in aftermath.written["metrics"]
    assert any(b"restricted" in v for k, v in aftermath.written.items() if k.startswith("explain"))


def test_traces_and_metrics_were_sent_and_processes_looked_into(aftermath: Aftermath) -> None:
    if "traces" not in aftermath.written:
        pytest.skip("the extra otel is not installed")
    assert aftermath.written["traces"].count(b"spillway.call") > 150
    assert b"spillway_calls_total" in aftermath.written["traces"]
    assert len([name for name in aftermath.written if name.startswith("environ")]) >= 3


def test_no_process_with_a_call_in_its_memory_can_leave_a_core_dump(aftermath: Aftermath) -> None:
    limits = {k: v.decode() for k, v in aftermath.written.items() if k.startswith("limits")}
    assert len(limits) >= 3  # the gateway, its scanner, its Triton
    for name, text in limits.items():
        (line,) = [found for found in text.splitlines() if found.startswith("Max core file size")]
        assert line.split()[-3:-1] in (["1", "1"], ["0", "0"]), name  # soft and hard


def test_nothing_that_was_written_has_a_caller_s_words(aftermath: Aftermath) -> None:
    found = {n: _all_said_in(data, aftermath.answers) for n, data in aftermath.written.items()}
    assert {name: words for name, words in found.items() if words} == {}
    assert [n for n, data in aftermath.written.items() if CARD.encode() in data] == []


def test_nobody_is_told_another_caller_s_words(aftermath: Aftermath) -> None:
    told = {
        words: [w for w in _all_said_in(answer, aftermath.answers) if w != words]
        for words, answer in aftermath.answers.items()
    }
    assert {words: others for words, others in told.items() if others} == {}
