"""A trace of every call, as a collector gets it from a running gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

pytest.importorskip("opentelemetry.proto", reason="the extra otel is not installed")

from gateway.demo.cloud.process import SimulatedCloud
from tests.live import LiveGateway, LoopThread, serving, settings, wait_until
from tests.otlp import Receiver, Seen, collector

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
STATE = "vendor=quokka,other=zanzibar"
CARD = "4111 1111 1111 1111"
STAGES = {"call", "front", "admission", "classify", "decide", "dispatch", "attempt", "settle"}


@dataclass
class Server:
    """An on-prem server of the Open Inference Protocol that keeps the heads of its calls."""

    heads: list[dict[str, str]] = field(default_factory=list)
    url: str = ""


@contextmanager
def listening() -> Iterator[Server]:
    server = Server()
    answer = json.dumps(
        {
            "model_name": "seen",
            "model_version": "1",
            "outputs": [{"name": "O", "datatype": "INT32", "shape": [1, 1], "data": [1]}],
        }
    ).encode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._say(b"{}")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            server.heads.append({k.lower(): v for k, v in self.headers.items()})
            self._say(answer)

        def _say(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_port}"
    thread = Thread(target=http.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join(10)


@dataclass
class Traced:
    gateway: LiveGateway
    receiver: Receiver
    server: Server

    def call(self, text: str, **more: Any) -> httpx.Response:
        said = [{"role": "user", "content": text}]
        body = {"model": "scribe", "max_tokens": 4, "messages": said, **more}
        return self.gateway.client.post("/v1/chat/completions", json=body)

    def infer(self, model: str, **headers: str) -> httpx.Response:
        tensor = {"name": "I", "datatype": "INT32", "shape": [1, 1], "data": [1]}
        path = f"/v2/models/{model}/infer"
        return self.gateway.client.post(path, json={"inputs": [tensor]}, headers=headers)

    def spans_of(self, answer: httpx.Response) -> list[Seen]:
        trace = answer.headers["traceparent"][3:35]
        wait_until(lambda: self.receiver.spans(trace), 15.0)
        return self.receiver.spans(trace)


@pytest.fixture(scope="module")
def traced(cloud: SimulatedCloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    scratch = tmp_path_factory.mktemp("traced")
    with collector() as receiver, listening() as server:
        document = settings(cloud, scratch, ["simple_string"], routing={"policy": "static_split"})
        document["telemetry"] = {
            "otlp_url": receiver.url, "trace_ratio": 1.0, "push_metrics": True,
            "push_metrics_s": 1.0,
        }  # fmt: skip
        document["endpoints"]["seen"] = {"kind": "kserve", "zone": "onprem", "url": server.url}
        document["endpoints"]["gone"] = {"kind": "kserve", "zone": "onprem", "grpc": "127.0.0.1:1"}
        document["models"]["seen"] = {"served_by": [{"endpoint": "seen"}]}
        document["models"]["gone"] = {"served_by": [{"endpoint": "gone"}]}
        with serving(document, scratch) as gateway:
            yield Traced(gateway, receiver, server)


def names(spans: list[Seen]) -> set[str]:
    return {span.name.removeprefix("spillway.") for span in spans}


def one(spans: list[Seen], name: str) -> Seen:
    (found,) = [span for span in spans if span.name == f"spillway.{name}"]
    return found


def is_whole(spans: list[Seen]) -> None:
    """One tree, whose parts lie within the whole."""
    root = one(spans, "call")
    ids = {span.id for span in spans}
    assert len(ids) == len(spans)
    assert all(span.parent in ids for span in spans if span is not root)
    for span in spans:
        assert root.start_ns <= span.start_ns <= span.end_ns <= root.end_ns


def test_a_restricted_call_has_a_span_for_each_stage(traced: Traced) -> None:
    spans = traced.spans_of(answer := traced.call(f"my card is {CARD}"))
    is_whole(spans)
    assert names(spans) == STAGES | {"queue"}
    told = one(spans, "call").told
    assert told == {
        "spillway.protocol": "openai", "spillway.operation": "chat.completions",
        "gen_ai.request.model": "scribe", "spillway.tenant": told["spillway.tenant"],
        "spillway.sensitivity": "restricted", "spillway.zone": "onprem",
        "spillway.outcome": "served", "spillway.reason": "restricted", "spillway.attempts": 1,
    }  # fmt: skip
    assert one(spans, "attempt").told == {
        "spillway.endpoint": "local", "spillway.zone": "onprem", "spillway.result": "served",
    }  # fmt: skip
    record = traced.gateway.record(answer.headers["x-request-id"])
    assert record["trace"] == one(spans, "call").trace
    assert one(spans, "call").id == answer.headers["traceparent"][36:52]


@pytest.mark.parametrize("stream", [False, True])
def test_a_clear_call_is_traced_to_the_end_of_its_answer(traced: Traced, stream: bool) -> None:
    spans = traced.spans_of(traced.call("hello", stream=stream))
    is_whole(spans)
    assert names(spans) >= STAGES
    assert one(spans, "attempt").told["spillway.zone"] == "cloud"
    assert len([s for s in spans if s.name == "spillway.classify"]) == 2  # again, at the door


def test_the_cloud_sees_no_trace_of_a_caller(
    traced: Traced, cloud: SimulatedCloud, loop_thread: LoopThread
) -> None:
    headers = {"traceparent": f"00-{TRACE_ID}-{CALLER}-01", "tracestate": STATE}
    said = [{"role": "user", "content": "a clear question"}]
    answer = traced.gateway.client.post(
        "/v1/chat/completions", json={"model": "scribe", "messages": said}, headers=headers
    )
    assert answer.headers["x-spillway-zone"] == "cloud"
    spans = traced.spans_of(answer)
    looked_for = [TRACE_ID, CALLER, "quokka", *(span.id for span in spans)]
    assert loop_thread.run(cloud.search(looked_for)) == []


def test_an_on_prem_server_is_told_of_the_attempt_and_the_state(traced: Traced) -> None:
    caller = f"00-{TRACE_ID[::-1]}-{CALLER}-01"
    answer = traced.infer("seen", traceparent=caller, tracestate=STATE)
    spans = traced.spans_of(answer)
    is_whole(spans)
    assert one(spans, "call").parent == CALLER
    head = traced.server.heads[-1]
    assert head["traceparent"] == f"00-{TRACE_ID[::-1]}-{one(spans, 'attempt').id}-01"
    assert head["tracestate"] == STATE


@pytest.mark.parametrize("state", ["free text", "a=b\tc", "A=b", "a=" + "x" * 600])
def test_a_state_that_is_none_goes_nowhere(traced: Traced, state: str) -> None:
    caller = f"00-{TRACE_ID}-{CALLER}-01"
    assert traced.infer("seen", traceparent=caller, tracestate=state).status_code == 200
    assert "tracestate" not in traced.server.heads[-1]


def test_a_state_without_a_parent_goes_nowhere(traced: Traced) -> None:
    assert traced.infer("seen", tracestate=STATE).status_code == 200
    assert "tracestate" not in traced.server.heads[-1]


def test_a_caller_that_is_not_sampled_leaves_no_trace(traced: Traced) -> None:
    silent = "1" * 32
    assert traced.infer("seen", traceparent=f"00-{silent}-{CALLER}-00").status_code == 200
    assert traced.server.heads[-1]["traceparent"].endswith("-00")
    traced.spans_of(traced.infer("seen"))  # one that came later has arrived
    assert traced.receiver.spans(silent) == []


def test_a_call_that_fails_says_where(traced: Traced) -> None:
    answer = traced.infer("gone")
    assert answer.status_code == 503
    spans = traced.spans_of(answer)
    is_whole(spans)
    told = one(spans, "call").told
    assert told["spillway.outcome"] == answer_outcome(traced, answer)
    assert told["spillway.reason"] == answer.headers["x-spillway-reason"]


def answer_outcome(traced: Traced, answer: httpx.Response) -> str:
    outcome: str = traced.gateway.record(answer.headers["x-request-id"])["outcome"]
    return outcome


def test_metrics_arrive_too(traced: Traced) -> None:
    traced.infer("seen")

    def pushed() -> set[str]:
        return {
            metric.name
            for message in tuple(traced.receiver.metrics)
            for resource in message.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    wait_until(lambda: "spillway_calls_total" in pushed(), 15.0)
    wait_until(lambda: "spillway_endpoint_available" in pushed(), 15.0)


def test_nothing_of_a_call_is_in_what_was_sent(traced: Traced) -> None:
    traced.call(f"quokka {CARD}", user="quokka", metadata={"quokka": "quokka"})
    body = {"id": "quokka", "inputs": [{"name": "quokka", "datatype": "BYTES", "shape": [1],
            "data": ["quokka"]}]}  # fmt: skip
    traced.gateway.client.post("/v2/models/simple_string/infer", json=body)
    traced.gateway.client.post("/v2/models/quokka/infer", json=body)
    traced.spans_of(traced.call("hello"))
    sent = b"".join(traced.receiver.raw)
    assert len(sent) > 1000
    assert b"quokka" not in sent
    assert CARD.encode() not in sent


def test_a_gateway_whose_collector_is_out_serves_all_the_same(tmp_path: Path) -> None:
    with listening() as server:
        document = {
            "listen": {"http_port": 0, "grpc_port": 0},
            "audit": {"directory": str(tmp_path / "audit")},
            "telemetry": {"otlp_url": "http://127.0.0.1:1", "trace_ratio": 1.0},
            "endpoints": {"seen": {"kind": "kserve", "zone": "onprem", "url": server.url}},
            "models": {"seen": {"served_by": [{"endpoint": "seen"}]}},
        }
        with serving(document, tmp_path) as gateway:
            alone = Traced(gateway, Receiver(), server)
            assert all(alone.infer("seen").status_code == 200 for _ in range(20))
            wait_until(lambda: b"takes nothing" in gateway.log_path.read_bytes(), 10.0)
            assert alone.infer("seen").status_code == 200
            assert "spillway_traces_dropped_total{" not in gateway.metrics()
