"""Several workers of one gateway (O5): what is limited, spent, restricted and recorded is had once,
whichever worker a call comes to and whichever of them dies."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from gateway.__main__ import main
from gateway.accounting.audit.journal.segments import chains
from gateway.accounting.audit.verify import public_key, records, verify
from loadtests.ports import free_port
from tests.live import ROOT, LiveGateway, descendants, serving, wait_until

WORKERS = 2
BUDGET_CALLS = 20
PRICE_USD = 0.001
CARD = "4111 1111 1111 1111"
KEYS = ("open", "minute", "few", "spending")


@contextlib.contextmanager
def echoing(delay_ms: float) -> Iterator[str]:
    """A backend that answers everybody the same, over the protocol of OpenAI."""
    port, other = free_port(), free_port()
    command = [sys.executable, "-m", "loadtests.echo", "--port", str(port)]
    more = ["--grpc-port", str(other), "--delay-ms", str(delay_ms)]
    process = subprocess.Popen([*command, *more], cwd=ROOT, stdout=subprocess.DEVNULL)

    def listens() -> bool:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        return False

    try:
        wait_until(listens, 30)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait(10)


class Counted:
    """A backend that takes 50 ms for everybody, and knows how many calls it had at once."""

    def __init__(self) -> None:
        self.most = self._inside = 0
        self._lock = threading.Lock()
        counted = self

        class Answering(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._say({"object": "list", "data": []})

            def do_POST(self) -> None:
                with counted._lock:
                    counted._inside += 1
                    counted.most = max(counted.most, counted._inside)
                self.rfile.read(int(self.headers["content-length"]))
                time.sleep(0.05)
                with counted._lock:
                    counted._inside -= 1
                message = {"role": "assistant", "content": "Hi."}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
                self._say({
                    "id": "x", "object": "chat.completion", "created": 1, "model": "echo",
                    "choices": [choice], "usage": usage,
                })  # fmt: skip

            def _say(self, document: dict[str, Any]) -> None:
                body = json.dumps(document).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Counted:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass
class House:
    gateway: LiveGateway
    scratch: Path
    document: dict[str, Any]

    def ask(self, key: str, model: str, text: str = "Hi.", **headers: str) -> httpx.Response:
        """Over a connection of its own, so that either worker may get it."""
        with self.gateway.connect() as client:
            return client.post(
                "/v1/chat/completions",
                json={"model": model, "max_tokens": 4, "messages": said(text)},
                headers={"authorization": f"Bearer {key}-key", **headers},
            )

    def ask_often(self, count: int, key: str, model: str, at_once: int = 16) -> Counter[int]:
        with ThreadPoolExecutor(at_once) as pool:
            answers = pool.map(lambda _: self.ask(key, model).status_code, range(count))
            return Counter(answers)

    def status(self) -> dict[str, Any]:
        headers = {"authorization": "Bearer open-key"}
        with self.gateway.connect() as client:
            return dict(client.get("/status", headers=headers).json())

    def pids(self) -> dict[int, int]:
        return {w["worker"]: w["process"] for w in self.status()["workers"]}

    def records(self) -> list[dict[str, Any]]:
        """Of calls, in all chains."""
        found = (r for chain in chains(self.gateway.audit) for r in records(chain))
        return [r for r in found if r["kind"] in ("call", "end", "intent")]

    def all_serve(self) -> bool:
        with contextlib.suppress(httpx.HTTPError, KeyError):
            return len(self.status()["workers"]) == WORKERS
        return False


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def document(onprem: str, cloud: str, scratch: Path) -> dict[str, Any]:
    keys: dict[str, Any] = {name: {"tenant": name} for name in KEYS}
    keys["minute"]["requests_per_minute"] = 20
    keys["few"]["max_concurrent"] = 3
    (scratch / "operator.key").write_text("operator-key-0123456789\n")
    for name in KEYS:
        (scratch / f"{name}.key").write_text(f"{name}-key\n")
        keys[name]["key"] = f"${{file:{scratch / name}.key}}"
    return {
        "listen": {"http_port": 0, "grpc_port": 0, "workers": WORKERS},
        "audit": {"directory": str(scratch / "audit")},
        "ledger": {"lease_wait_ms": 10_000},
        "classify": {"names": "off", "budget_ms": 20_000},
        "keys": keys,
        "tenants": {"spending": {"spill_budget_usd_total": PRICE_USD * BUDGET_CALLS}},
        "endpoints": {
            "own": {
                "kind": "openai", "zone": "onprem", "url": onprem, "expected_ms": 60,
                "max_in_flight": 8, "canary": False,
            },
            "cloud": {"kind": "openai", "zone": "cloud", "url": cloud, "expected_ms": 20},
        },
        "models": {
            "here": {"task": "generate", "served_by": [{"endpoint": "own", "model": "echo"}]},
            "there": {
                "task": "generate",
                "served_by": [{"endpoint": "cloud", "model": "echo", "price_usd": PRICE_USD}],
            },
            "either": {
                "task": "generate",
                "served_by": [
                    {"endpoint": "own", "model": "echo"},
                    {"endpoint": "cloud", "model": "echo", "price_usd": PRICE_USD},
                ],
            },
        },
        "routing": {"policy": "static_split"},
        "console": {
            "operators": {"ann": {"key": f"${{file:{scratch}/operator.key}}", "may": "operate"}}
        },
        "limits": {"drain_s": 5.0},
    }  # fmt: skip


@pytest.fixture(scope="module")
def counted() -> Iterator[Counted]:
    with Counted() as onprem:
        yield onprem


@pytest.fixture(scope="module")
def backends(counted: Counted) -> Iterator[tuple[str, str]]:
    with echoing(5.0) as cloud:
        yield counted.url, cloud


@pytest.fixture(scope="module")
def house(backends: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    scratch = tmp_path_factory.mktemp("workers")
    settings = document(*backends, scratch)
    with serving(settings, scratch) as gateway:
        yield House(gateway, scratch, settings)


@pytest.fixture(autouse=True)
def _whole(request: pytest.FixtureRequest) -> None:
    """Whatever the last test did to it."""
    if "house" in request.fixturenames:
        wait_until(request.getfixturevalue("house").all_serve, 60)


# Together


def test_both_take_calls_and_tell_of_all(house: House) -> None:
    before = {chain.name: sum(1 for _ in records(chain)) for chain in chains(house.gateway.audit)}
    assert house.ask_often(60, "open", "here") == Counter({200: 60})
    wait_until(
        lambda: all(
            sum(1 for _ in records(chain)) > before[chain.name]
            for chain in chains(house.gateway.audit)
        ),
        10,
    )
    page = house.gateway.metrics()
    assert {'worker="1"', 'worker="2"'} <= set(re.findall(r'worker="\d"', page))
    heads = [line for line in page.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
    assert set(house.pids()) == {1, 2}


def test_a_limit_of_requests_is_that_of_all_workers(house: House) -> None:
    since_s = time.monotonic()
    answers = house.ask_often(200, "minute", "there")
    filled_again = (time.monotonic() - since_s) / 3 + 1
    assert answers[200] + answers[429] == 200
    assert 20 <= answers[200] <= 20 + filled_again


def test_a_limit_of_calls_at_once_is_that_of_all_workers(house: House, counted: Counted) -> None:
    counted.most = 0
    answers = house.ask_often(60, "few", "here", at_once=12)
    assert 2 <= counted.most <= 3
    assert answers[200] + answers[429] == 60
    assert answers[200] > 0
    assert answers[429] > 0
    assert house.ask_often(3, "few", "here", at_once=1) == Counter({200: 3})  # all is given back


def test_a_budget_is_that_of_all_workers(house: House) -> None:
    answers = house.ask_often(200, "spending", "there")
    assert answers[200] <= BUDGET_CALLS

    def spent() -> bool:
        """What one worker had leased and did not need the other has within seconds."""
        answers.update(house.ask_often(10, "spending", "there"))
        assert answers[200] <= BUDGET_CALLS
        return answers[200] == BUDGET_CALLS

    wait_until(spent, 30)
    assert house.ask_often(20, "spending", "there")[200] == 0
    with contextlib.closing(sqlite3.connect(house.scratch / "ledger.db")) as ledger:
        wait_until(lambda: _spent(ledger) == round(PRICE_USD * BUDGET_CALLS * 1e9), 10)


def _spent(ledger: sqlite3.Connection) -> int:
    sql = "SELECT SUM(nano_usd) FROM attempts WHERE tenant = 'spending'"
    return int(ledger.execute(sql).fetchone()[0] or 0)


def test_a_conversation_that_was_restricted_is_so_at_every_worker(house: House) -> None:
    first = [*said("Tell me of the copper meadow.")]
    labelled = {"x-spillway-sensitivity": "restricted"}
    body: dict[str, Any] = {"model": "either", "max_tokens": 4, "messages": first}
    headers = {"authorization": "Bearer open-key"}
    with house.gateway.connect() as client:
        client.post("/v1/chat/completions", json=body, headers=headers | labelled)
    body["messages"] = [*first, {"role": "assistant", "content": "Well."}, *said("Go on.")]
    zones: Counter[str] = Counter()
    for _ in range(24):
        with house.gateway.connect() as client:
            answer = client.post("/v1/chat/completions", json=body, headers=headers)
            zones[answer.headers["x-spillway-zone"]] += 1
    assert zones == Counter({"onprem": 24})


def test_one_queue_decides_for_all_workers(house: House) -> None:
    """The server takes eight calls at once, and no worker may send it eight of its own."""
    page = re.compile(
        r'spillway_queue_in_flight\{worker="(\d)",endpoint="own",model="here"\} (\S+)'
    )
    seen: Counter[str] = Counter()

    def look() -> None:
        while not over.is_set():
            for worker, count in page.findall(house.gateway.metrics()):
                seen[worker] = max(seen[worker], int(float(count)))

    over = threading.Event()
    looking = threading.Thread(target=look)
    looking.start()
    assert house.ask_often(120, "open", "here", at_once=24) == Counter({200: 120})
    over.set()
    looking.join()
    assert 1 < seen["1"] <= 8
    assert seen["2"] == 0


def test_what_is_drained_at_one_worker_is_at_all(house: House) -> None:
    operator = {"authorization": "Bearer operator-key-0123456789"}

    def drain(drained: bool) -> None:
        with house.gateway.connect() as client:
            asked = {"endpoint": "own", "drained": drained}
            assert client.post("/console/drain", json=asked, headers=operator).status_code == 200

    drain(True)
    try:
        assert [w["drained"] for w in house.status()["workers"]] == [["own"]] * WORKERS
        pid = house.pids()[2]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: house.all_serve() and pid not in house.pids().values(), 60)
        assert [w["drained"] for w in house.status()["workers"]] == [["own"]] * WORKERS
        assert house.ask_often(8, "open", "here")[200] == 0
    finally:
        drain(False)
    assert house.ask_often(8, "open", "here") == Counter({200: 8})


def picture_of(client: httpx.Client, headers: dict[str, str]) -> dict[str, Any]:
    """The first event of the console's stream."""
    with client.stream("GET", "/console/events", headers=headers) as answer:
        assert answer.status_code == 200
        text = ""
        for part in answer.iter_text():
            text += part
            if "\n\n" in text:
                break
    (data,) = re.findall(r"^data: (.+)$", text.split("\n\n")[0], re.MULTILINE)
    return dict(json.loads(data))


def test_the_console_shows_the_calls_of_all_workers_and_explains_each(house: House) -> None:
    operator = {"authorization": "Bearer operator-key-0123456789"}
    ids = {house.ask("open", "here").headers["x-request-id"] for _ in range(40)}

    def whole() -> bool:
        with house.gateway.connect() as client:
            picture = picture_of(client, operator)
        counted = sum(c["calls"] for c in picture["counts"])
        return (
            counted >= 40 and len({d["decision"].split("-")[0] for d in picture["decisions"]}) == 2
        )

    wait_until(whole, 20)
    with house.gateway.connect() as client:
        picture = picture_of(client, operator)
    shown = picture["decisions"]
    assert len({d["decision"] for d in shown}) == len(shown)
    assert [d["time"] for d in shown] == sorted(d["time"] for d in shown)
    explained = set()
    for decision in shown[-40:]:  # each over a connection of its own, to either worker
        with house.gateway.connect() as client:
            found = client.get(f"/console/decisions/{decision['decision']}", headers=operator)
        assert found.status_code == 200
        assert {k: found.json()[k] for k in ("time", "model", "tenant")} == {
            k: decision[k] for k in ("time", "model", "tenant")
        }
        explained.add(found.json()["id"])
    assert explained == ids
    with house.gateway.connect() as client:
        for unknown in ("3-1", "1-999999", "x-1", "1-", "-1", "1-1-1"):
            found = client.get(f"/console/decisions/{unknown}", headers=operator)
            assert found.status_code == 404, unknown


# Other settings


def test_a_reload_reaches_all_workers(house: House) -> None:
    before = {w["policy"] for w in house.status()["workers"]}
    assert len(before) == 1
    changed = {**house.document, "limits": {"drain_s": 6.0}}
    file = house.scratch / "spillway.yaml"
    file.write_text(yaml.safe_dump(changed))
    os.kill(house.gateway.process.pid, signal.SIGHUP)

    def taken() -> bool:
        now = [w["policy"] for w in house.status()["workers"]]
        return len(now) == WORKERS and len({*now}) == 1 and not {*now} & before

    wait_until(taken, 30)
    assert house.ask_often(20, "open", "here") == Counter({200: 20})


# Death


def test_no_acknowledged_record_is_lost_with_a_killed_worker(house: House) -> None:
    answered: list[str] = []
    over = threading.Event()

    def call() -> None:
        while not over.is_set():
            with contextlib.suppress(httpx.HTTPError):
                answer = house.ask("open", "there")
                if answer.status_code == 200:
                    answered.append(answer.headers["x-request-id"])

    callers = [threading.Thread(target=call) for _ in range(8)]
    for caller in callers:
        caller.start()
    try:
        for worker in (2, 1):
            wait_until(house.all_serve, 60)
            time.sleep(0.5)
            pid = house.pids()[worker]
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: house.all_serve() and pid not in house.pids().values(), 60)  # noqa: B023
    finally:
        over.set()
        for caller in callers:
            caller.join()
    assert len(answered) > 50
    recorded = {r["id"] for r in house.records()}
    assert set(answered) <= recorded
    for chain in chains(house.gateway.audit):
        assert verify(chain, public_key(chain)).holds
    page = house.gateway.metrics()
    (restarts,) = re.findall(r'^spillway_worker_restarts\{worker="1"\} (\S+)$', page, re.MULTILINE)
    assert float(restarts) >= 2


def test_what_a_killed_worker_had_inside_is_free_again(house: House) -> None:
    with ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            pool.submit(_suppressed, lambda: house.ask("few", "here"))
        time.sleep(0.02)
        for pid in house.pids().values():
            os.kill(pid, signal.SIGKILL)
    wait_until(house.all_serve, 60)
    assert house.ask_often(3, "few", "here", at_once=3) == Counter({200: 3})


def _suppressed(work: Callable[[], object]) -> None:
    with contextlib.suppress(httpx.HTTPError):
        work()


def test_a_stopped_owner_stops_nobody_else(house: House) -> None:
    """Calls that come to the stopped process itself wait there; the other one serves its own."""
    pid = house.pids()[1]
    os.kill(pid, signal.SIGSTOP)
    answered: list[int] = []

    def ask() -> None:
        with contextlib.suppress(httpx.HTTPError):
            answered.append(house.ask("open", "here").status_code)

    try:
        callers = [threading.Thread(target=ask) for _ in range(16)]
        for caller in callers:
            caller.start()
        wait_until(lambda: len(answered) >= 4, 15)
    finally:
        os.kill(pid, signal.SIGCONT)
        for caller in callers:
            caller.join()
    assert set(answered) == {200}


# Without what they share


def test_without_the_ledger_nothing_leaves_and_restricted_calls_are_served(house: House) -> None:
    with contextlib.closing(sqlite3.connect(house.scratch / "ledger.db")) as ledger:
        ledger.execute("BEGIN EXCLUSIVE")
        # Entries that cannot be written tell each worker.
        house.ask_often(8, "open", "there")
        wait_until(lambda: house.ask_often(8, "open", "there")[200] == 0, 30)
        zones = [house.ask("open", "either", f"card {CARD}") for _ in range(8)]
        assert {a.status_code for a in zones} == {200}
        assert {a.headers["x-spillway-zone"] for a in zones} == {"onprem"}
        ledger.execute("ROLLBACK")
    wait_until(lambda: house.ask_often(8, "open", "there") == Counter({200: 8}), 30)


# The end


def test_sigterm_lets_calls_finish_and_leaves_nothing(
    backends: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = document(*backends, tmp_path)
    with serving(settings, tmp_path) as gateway:
        house = House(gateway, tmp_path, settings)
        assert house.ask("open", "here").status_code == 200
        inside = re.compile(r'spillway_calls_in_flight\{worker="\d"\} [1-9]')
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(house.ask, "open", "here") for _ in range(8)]
            wait_until(lambda: inside.search(gateway.metrics()), 10)
            left = descendants(gateway.process.pid)
            gateway.process.send_signal(signal.SIGTERM)
            for one in asked:  # some may come too late to be let in
                with contextlib.suppress(httpx.HTTPError):
                    assert one.result().status_code in (200, 503)
        assert gateway.process.wait(30) == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in left)
    capsys.readouterr()
    config = str(tmp_path / "spillway.yaml")
    assert main(["audit", "verify", "--config", config]) == 0
    assert capsys.readouterr().err.count("holds") == WORKERS
    (first, *_) = [
        r for chain in chains(gateway.audit) for r in records(chain) if r["kind"] == "call"
    ]
    assert main(["audit", "prove", "--config", config, first["id"]]) == 0
    proof = capsys.readouterr().out
    assert first["id"].encode() in base64.b64decode(proof.split("extra ")[1].split()[0])
    assert main(["audit", "export", "--config", config, "--to", str(tmp_path / "away")]) == 0
    assert {p.name for p in (tmp_path / "away").iterdir()} == {"worker-1", "worker-2"}


def test_workers_end_with_their_parent(backends: tuple[str, str], tmp_path: Path) -> None:
    with serving(document(*backends, tmp_path), tmp_path) as gateway:
        workers = json.loads((tmp_path / "ready.json").read_text())["workers"]
        gateway.process.kill()
        gateway.process.wait(10)
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), 20)


def test_a_port_that_is_taken_is_told_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        settings = document("http://127.0.0.1:1/v1", "http://127.0.0.1:1/v1", tmp_path)
        settings["listen"]["http_port"] = other.getsockname()[1]
        (tmp_path / "spillway.yaml").write_text(yaml.safe_dump(settings))
        assert main(["serve", "--config", str(tmp_path / "spillway.yaml")]) == 2
    assert "cannot listen" in capsys.readouterr().err
