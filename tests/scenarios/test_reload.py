"""Other settings for a gateway that runs (O2): SIGHUP, changes of the file, and what they leave."""

from __future__ import annotations

import asyncio
import copy
import ctypes
import gc
import os
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton
import yaml

from gateway.app.endpoint_set import EndpointSet
from gateway.app.gateway import Gateway
from gateway.app.generation import Core
from gateway.auth import Callers
from gateway.config import Settings, parse
from gateway.core.errors import SpillClosed
from gateway.demo.cloud.process import SimulatedCloud
from gateway.endpoints.outcomes import Outcomes
from gateway.endpoints.registry import EndpointRegistry
from gateway.endpoints.state import EndpointState
from gateway.endpoints.versions.handover import Handover
from gateway.pipeline.pipeline import Pipeline
from tests.live import (
    LiveGateway,
    LoopThread,
    cloud_only,
    descendants,
    serving,
    settings,
    simulated_cloud,
)
from tests.live import wait_until as until

MARKER = "zanzibar.quill7431@posteo.example"
KEYS = {"SPILLWAY_A": "key-of-alpha-0123456789", "SPILLWAY_B": "key-of-beta-0123456789"}
ALPHA = {"authorization": f"Bearer {KEYS['SPILLWAY_A']}"}
BETA = {"authorization": f"Bearer {KEYS['SPILLWAY_B']}"}


@dataclass
class Reloaded:
    """A gateway with a file that tests change, and what it is asked."""

    gateway: LiveGateway
    cloud: SimulatedCloud
    loop: LoopThread
    file: Path
    first: dict[str, Any]
    document: dict[str, Any] = field(default_factory=dict)

    def status(self) -> dict[str, Any]:
        answer = httpx.get(
            f"{self.gateway.http_url}/status", headers=ALPHA, trust_env=False, verify=False
        )
        return dict(answer.json()["settings"])

    def counted(self, result: str) -> float:
        name = f'spillway_config_reloads_total{{result="{result}"}} '
        text = httpx.get(f"{self.gateway.http_url}/metrics", trust_env=False, verify=False).text
        return float(next(x for x in text.splitlines() if x.startswith(name)).split()[-1])

    def write(self, document: dict[str, Any] | str) -> None:
        text = document if isinstance(document, str) else yaml.safe_dump(document)
        part = self.file.with_suffix(".part")
        part.write_text(text)
        part.replace(self.file)

    def hup(self, document: dict[str, Any] | str, result: str = "applied") -> None:
        """Write it, ask for it, and wait until that has come of it."""
        before = self.counted(result)
        self.write(document)
        self.gateway.process.send_signal(signal.SIGHUP)
        until(lambda: self.counted(result) > before, 15)

    def changed(self, **sections: Any) -> dict[str, Any]:
        found = copy.deepcopy(self.first)
        for section, changes in sections.items():
            for name, value in changes.items():
                if value is None:
                    del found[section][name]
                elif isinstance(found.setdefault(section, {}).get(name), dict):
                    found[section][name] |= value
                else:
                    found[section][name] = value
        return found

    def chat(self, text: str = "Hi.", client: httpx.Client | None = None, **more: Any) -> Any:
        headers = {**ALPHA, **more.pop("headers", {})}
        body = {
            "model": "scribe", "max_tokens": 2, "messages": [{"role": "user", "content": text}],
            **more,
        }  # fmt: skip
        return (client or self.gateway.client).post(
            "/v1/chat/completions", json=body, headers=headers
        )


@pytest.fixture(scope="module")
def house(loop_thread: LoopThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reloaded]:
    scratch = tmp_path_factory.mktemp("reloaded")
    with simulated_cloud(loop_thread, between_tokens_ms=40.0) as cloud:
        document = cloud_only(settings(cloud, scratch))
        document["keys"] = {
            "alpha": {"key": "${SPILLWAY_A}", "tenant": "a"},
            "beta": {"key": "${SPILLWAY_B}", "tenant": "b"},
        }
        os.environ.update(KEYS)
        try:
            with serving(document, scratch) as gateway:
                yield Reloaded(
                    gateway, cloud, loop_thread, scratch / "spillway.yaml", document, document
                )
        finally:
            for name in KEYS:
                del os.environ[name]


@pytest.fixture(autouse=True)
def _as_it_was(house: Reloaded) -> Iterator[None]:
    yield
    house.write(house.first)
    house.gateway.process.send_signal(signal.SIGHUP)
    until(lambda: house.status()["policy"] == _first_policy(house), 15)


_policies: dict[int, str] = {}


def _first_policy(house: Reloaded) -> str:
    return _policies[id(house)]


@pytest.fixture(autouse=True)
def _policy(house: Reloaded) -> None:
    _policies.setdefault(id(house), house.status()["policy"])


def _tensor() -> triton.InferInput:
    found = triton.InferInput("INPUT0", [1, 16], "INT32")
    found.set_data_from_numpy(np.arange(16, dtype=np.int32).reshape(1, 16))
    return found


def test_reloads_under_load_lose_no_call_and_no_connection(house: Reloaded) -> None:
    stop = threading.Event()
    statuses: list[int] = []
    failures: list[str] = []

    def over_http() -> None:
        with house.gateway.connect() as client:
            while not stop.is_set():
                statuses.append(house.chat(client=client).status_code)

    def over_grpc() -> None:
        client = triton.InferenceServerClient(house.gateway.grpc_target)
        second = triton.InferInput("INPUT1", [1, 16], "INT32")
        second.set_data_from_numpy(np.ones((1, 16), dtype=np.int32))
        try:
            while not stop.is_set():
                client.infer("simple", [_tensor(), second], headers=ALPHA)
                statuses.append(200)
        except triton.InferenceServerException as exc:
            failures.append(str(exc))
        finally:
            client.close()

    work = [over_http, over_http, over_http, over_grpc, over_grpc]
    threads = [threading.Thread(target=one) for one in work]
    for thread in threads:
        thread.start()
    try:
        for number in range(8):
            house.hup(house.changed(
                endpoints={"cloud": {"expected_ms": 100 + number}}, queue={"aging_s": 3 + number},
            ))  # fmt: skip
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    assert failures == []
    assert set(statuses) == {200}
    assert len(statuses) > 50
    until(lambda: house.status()["still_in_use"] == [], 10)


def test_a_connection_that_is_kept_alive_stays_open(house: Reloaded) -> None:
    host, port = house.gateway.http_url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as caller:
        for number in range(3):
            caller.sendall(f"GET /healthz HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
            assert _answer(caller).startswith(b"HTTP/1.1 200")
            house.hup(house.changed(queue={"aging_s": 3 + number}))


def _answer(caller: socket.socket) -> bytes:
    found = b""
    while not found.endswith(b'{"live":true}'):
        found += caller.recv(4096)
    return found


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("endpoints: [", "refused"),
        ("endpoints:\n  cloud:\n    kind: openai\n", "refused"),
        ("", "refused"),
        (None, "needs_restart"),
    ],
)
def test_a_bad_file_changes_nothing_and_raises_the_metric(
    house: Reloaded, text: str | None, result: str
) -> None:
    """Without a word, too: the file is watched."""
    before, policy = house.counted(result), house.status()["policy"]
    house.write(house.changed(listen={"http_port": 1}) if text is None else text)
    until(lambda: house.counted(result) == before + 1, 10)
    told = house.status()
    assert told["policy"] == policy
    assert told["last_reload"]["result"] == result
    if text is None:
        assert told["last_reload"]["needs_restart"] == ["listen.http_port"]
    else:
        assert told["last_reload"]["problems"] >= 1
    assert house.chat().status_code == 200


def test_without_keys_nobody_gets_in_by_a_reload(house: Reloaded) -> None:
    """A file that was cut short may still be one."""
    house.hup(house.changed(keys={"alpha": None, "beta": None}), "needs_restart")
    assert house.gateway.client.get("/status").status_code == 401


def test_a_key_that_is_taken_out_is_refused_within_five_seconds(house: Reloaded) -> None:
    """The next message of an open gRPC stream, too."""
    answers: list[Any] = []
    client = triton.InferenceServerClient(house.gateway.grpc_target)
    client.start_stream(lambda result, error: answers.append(error), headers=BETA)
    second = triton.InferInput("INPUT1", [1, 16], "INT32")
    second.set_data_from_numpy(np.ones((1, 16), dtype=np.int32))
    try:
        client.async_stream_infer("simple", [_tensor(), second])
        until(lambda: len(answers) == 1, 10)
        assert answers == [None]
        assert house.chat(headers=BETA).status_code == 200
        house.write(house.changed(keys={"beta": None}))
        until(lambda: house.chat(headers=BETA).status_code == 401, 5)
        client.async_stream_infer("simple", [_tensor(), second])
        until(lambda: len(answers) == 2, 10)
        assert answers[1] is not None
        assert house.chat().status_code == 200
    finally:
        client.stop_stream()
        client.close()


def test_a_stream_that_is_open_ends_whole_under_the_policy_it_came_to(house: Reloaded) -> None:
    policy = house.status()["policy"]
    body = {"model": "scribe", "max_tokens": 40, "stream": True,
            "messages": [{"role": "user", "content": "Tell me of rivers."}]}  # fmt: skip
    with house.gateway.client.stream(
        "POST", "/v1/chat/completions", json=body, headers=ALPHA
    ) as answer:
        lines = answer.iter_lines()
        next(lines)
        house.hup(house.changed(endpoints={"cloud": {"expected_ms": 99}}))
        told = house.status()
        assert told["policy"] != policy
        assert told["still_in_use"] == [policy]
        rest = [line for line in lines if line]
    assert rest[-1] == "data: [DONE]"
    assert len(rest) > 30
    assert house.gateway.record(answer.headers["x-request-id"])["policy"] == policy
    later = house.chat()
    assert later.status_code == 200
    assert house.gateway.record(later.headers["x-request-id"])["policy"] == told["policy"]
    until(lambda: house.status()["still_in_use"] == [], 10)


def test_an_endpoint_whose_zone_changes_gets_restricted_calls_only_while_it_is_on_the_premises(
    house: Reloaded,
) -> None:
    def seen() -> int:
        return len(house.loop.run(house.cloud.search([MARKER])))

    private = f"Write to {MARKER}"
    assert house.chat(private).headers["x-spillway-reason"] == "onprem_unavailable_restricted"
    before = seen()
    house.hup(house.changed(endpoints={"cloud": {"zone": "onprem"}}))
    answer = house.chat(private)
    assert (answer.status_code, answer.headers["x-spillway-zone"]) == (200, "onprem")
    there = seen()
    assert there > before
    house.hup(house.first)
    refused = house.chat(private)
    assert refused.status_code == 503
    assert refused.headers["x-spillway-reason"] == "onprem_unavailable_restricted"
    assert seen() == there


def test_a_model_that_becomes_restricted_is_so_from_the_first_call_on(house: Reloaded) -> None:
    """Told by the records: each call's class and the policy that it was under."""
    body = {"inputs": [
        {"name": name, "datatype": "INT32", "shape": [1, 16], "data": [*range(16)]}
        for name in ("INPUT0", "INPUT1")
    ]}  # fmt: skip
    stop = threading.Event()

    def calling() -> None:
        with house.gateway.connect() as client:
            while not stop.is_set():
                client.post("/v2/models/simple/infer", json=body, headers=ALPHA)

    open_policy = house.status()["policy"]
    threads = [threading.Thread(target=calling) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    house.hup(house.changed(models={"simple": {"tensors": "restricted"}}))
    time.sleep(0.3)
    stop.set()
    for thread in threads:
        thread.join(30)
    closed_policy = house.status()["policy"]
    time.sleep(0.3)
    found = [r for r in house.gateway.records() if r.get("model") == "simple"]
    classes = {
        policy: {r["sensitivity"] for r in found if r["policy"] == policy}
        for policy in (open_policy, closed_policy)
    }
    assert classes == {open_policy: {"clear"}, closed_policy: {"restricted"}}
    under = [r for r in found if r["policy"] == closed_policy]
    assert all(a["zone"] == "onprem" for r in under for a in r["attempts"])


@pytest.mark.parametrize("never", [{"policy": "onprem_only"}, {"spill": False}])
def test_from_settings_on_that_let_nothing_leave_nothing_does(
    house: Reloaded, never: dict[str, Any]
) -> None:
    assert house.chat().headers["x-spillway-zone"] == "cloud"
    house.hup(house.changed(routing=never))
    refused = house.chat()
    assert refused.status_code == 503
    assert "spill_off" in refused.text
    house.hup(house.first)
    assert house.chat().headers["x-spillway-zone"] == "cloud"


@pytest.mark.parametrize("never", [{"policy": "onprem_only"}, {"spill": False}])
def test_the_door_closes_for_calls_of_the_settings_before(
    tmp_path: Path, never: dict[str, Any], loop_thread: LoopThread
) -> None:
    """In this process, whose door can be asked."""
    with simulated_cloud(loop_thread) as cloud:
        document = cloud_only(settings(cloud, tmp_path))

        async def main() -> None:
            gateway, ready = Gateway(parse(yaml.safe_dump(document))), asyncio.Event()
            running = asyncio.create_task(gateway.run(lambda _: ready.set()))
            await ready.wait()
            gateway.parts.spill.reserve("t", 0)
            await gateway.apply(parse(yaml.safe_dump({**document, "routing": never})))
            with pytest.raises(SpillClosed):
                gateway.parts.spill.reserve("t", 0)
            await gateway.apply(parse(yaml.safe_dump(document)))
            gateway.parts.spill.reserve("t", 0)
            gateway.stop()
            await running

        asyncio.run(main())


def test_two_hundred_reloads_leave_nothing_behind(loop_thread: LoopThread, tmp_path: Path) -> None:
    """In this process, whose tasks and objects can be counted. One has the scanners replaced."""
    with simulated_cloud(loop_thread) as cloud:
        document = cloud_only(settings(cloud, tmp_path))

        def version(number: int) -> Settings:
            document["endpoints"]["cloud"]["expected_ms"] = 100 + number
            document["queue"] = {"aging_s": 3 + number % 7}
            document["classify"] = {"threshold": 0.3 if number > 210 else 0.35}
            return parse(yaml.safe_dump(document))

        async def main() -> None:
            gateway, ready = Gateway(version(0)), asyncio.Event()
            running = asyncio.create_task(gateway.run(lambda _: ready.set()))
            await ready.wait()
            url = f"http://127.0.0.1:{gateway.http_port}"
            body = {"model": "scribe", "max_tokens": 1,
                    "messages": [{"role": "user", "content": "Hi."}]}  # fmt: skip
            async with httpx.AsyncClient(
                base_url=url, trust_env=False, verify=False, timeout=30
            ) as client:

                async def settled() -> tuple[int, ...]:
                    answer = await client.post("/v1/chat/completions", json=body)
                    assert answer.status_code == 200
                    await asyncio.gather(*gateway.background.tasks)
                    assert gateway.reports.status()["settings"]["still_in_use"] == []
                    gc.collect()
                    found = Counter(type(o) for o in gc.get_objects() if type(o) in _PARTS)
                    return (
                        len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd")),
                        len(descendants(os.getpid())), *(found[kind] for kind in _PARTS),
                    )  # fmt: skip

                for number in range(20):
                    await gateway.apply(version(number))
                before, before_memory = await settled(), _allocated()
                for number in range(20, 220):
                    await gateway.apply(version(number))
                    if number % 40 == 0:
                        answer = await client.post("/v1/chat/completions", json=body)
                        assert answer.status_code == 200
                after = await settled()
                grown = [now - then for then, now in zip(before, after, strict=True)]
                assert max(grown) <= 5, (before, after)
                assert after[3:] == before[3:]
                blocks, native = (
                    now - then for now, then in zip(_allocated(), before_memory, strict=True)
                )
                assert blocks < 20_000
                assert native < 8 * 2**20
            gateway.stop()
            await running
            gateway._listeners._grpc = None  # before the loop is gone, which its server's end needs
            gc.collect()
            await asyncio.sleep(0)

        asyncio.run(main())


_PARTS = (
    Core, EndpointSet, EndpointRegistry, Outcomes, Handover, EndpointState, Callers, Pipeline,
)  # fmt: skip


class _Mallinfo(ctypes.Structure):
    """`struct mallinfo2` of glibc's malloc.h."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    )  # fmt: skip


def _allocated() -> tuple[int, int]:
    """Blocks of Python's allocator and bytes of malloc's that are in use. What the process occupies
    says less: its allocators keep what they have freed."""
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)  # of glibc 2.33 and later
    if mallinfo is None:
        return sys.getallocatedblocks(), 0
    mallinfo.restype = _Mallinfo
    info = mallinfo()
    return sys.getallocatedblocks(), info.uordblks + info.hblkhd
