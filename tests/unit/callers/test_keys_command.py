"""B6: `spillway keys`, as it is used, and a gateway that runs beside it."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.auth import Callers
from gateway.auth.issued import TRUSTED_S, Clocks, IssuedKeys
from gateway.auth.key_store import KeyReader
from gateway.core import ambient
from gateway.core.errors import GatewayError
from gateway.core.types import ONPREM_ONLY

Captured = pytest.CaptureFixture[str]


def callers(store: Path) -> Callers:
    clocks = Clocks(ambient.monotonic_s, ambient.wall_s)
    issued = IssuedKeys(KeyReader(store), {}, clocks)
    issued.poll()
    return Callers({}, issued=issued)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "keys.db"


def run(capsys: Captured, store: Path, *arguments: str) -> tuple[int, str, str]:
    status = main(["keys", *arguments, "--store", str(store)])
    return status, *capsys.readouterr()


def created(capsys: Captured, store: Path, *arguments: str) -> str:
    status, out, _ = run(capsys, store, "create", *arguments)
    assert status == 0
    return out.strip()


def listed(capsys: Captured, store: Path) -> list[dict[str, object]]:
    _, out, _ = run(capsys, store, "list", "--json")
    return [json.loads(line) for line in out.splitlines()]


def test_a_key_is_shown_once_and_alone(capsys: Captured, store: Path) -> None:
    status, out, err = run(capsys, store, "create", "acme", "--name", "[bold] night")
    assert status == 0
    assert re.fullmatch(r"sk-spw-[a-z2-7]{12}-[0-9A-Za-z]{49}\n", out)
    secret = out.strip()[20:]
    _, table, _ = run(capsys, store, "list")
    assert "[bold] night" in table
    assert secret not in err + table + json.dumps(listed(capsys, store))
    assert secret.encode() not in store.read_bytes()
    assert callers(store).identify(f"Bearer {out.strip()}").tenant == "acme"


def test_a_key_is_kept_to_what_was_said(capsys: Captured, store: Path) -> None:
    key = created(
        capsys, store, "acme", "--models", "a", "--models", "b", "--placement", "onprem",
        "--requests-per-minute", "60", "--most-urgent-priority", "3", "--expires", "30m",
        "--model-map", "gpt-4o=a", "--zones", "eu", "--label", "personal",
    )  # fmt: skip
    found = callers(store).identify(f"Bearer {key}")
    assert found.models == frozenset({"a", "b"})
    assert found.zones == ONPREM_ONLY
    assert found.most_urgent == 3
    assert (found.zone_names, found.labels) == (frozenset({"eu"}), frozenset({"personal"}))
    assert (found.named("gpt-4o"), found.named("b")) == ("a", "b")
    assert found.quotas[0].requests_per_minute == 60
    (told,) = listed(capsys, store)
    assert told["scope"] == {
        "models": ["a", "b"], "placement": "onprem", "most_urgent_priority": 3,
        "requests_per_minute": 60.0, "model_map": {"gpt-4o": "a"},
        "zones": ["eu"], "label": "personal",
    }  # fmt: skip
    assert told["state"] == "in use"


def test_a_key_that_is_revoked_or_rotated_says_so(capsys: Captured, store: Path) -> None:
    first = created(capsys, store, "acme", "--models", "a")
    second = created(capsys, store, "acme")
    assert run(capsys, store, "revoke", second[7:19])[0] == 0
    status, out, err = run(capsys, store, "rotate", first[7:19], "--overlap", "5m")
    assert status == 0
    assert first[7:19] in err
    told = {row["id"]: row for row in listed(capsys, store)}
    assert told[second[7:19]]["state"] == "revoked"
    new = told[out.strip()[7:19]]
    assert (new["replaces"], new["scope"]) == (first[7:19], {"models": ["a"]})
    known = callers(store)
    for key in (first, out.strip()):
        assert known.identify(f"Bearer {key}").tenant == "acme"
    assert run(capsys, store, "revoke", second[7:19])[0] == 1, "it is revoked already"
    assert run(capsys, store, "rotate", second[7:19])[0] == 1, "it is not in use"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("create", "a b"), "tenant"),
        (("create", "acme", "--expires", "soon"), "--expires"),
        (("create", "acme", "--expires", "2020-01-01"), "past"),
        (("create", "acme", "--most-urgent-priority", "10"), "--most-urgent-priority"),
        (("create", "acme", "--requests-per-minute", "-1"), "--requests-per-minute"),
        (("create", "acme", "--threshold", "2"), "--threshold"),
        (("rotate", "x", "--overlap", "1 week"), "--overlap"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    capsys: Captured, store: Path, arguments: tuple[str, ...], said: str
) -> None:
    status, out, err = run(capsys, store, *arguments)
    assert (status, out) == (2, "")
    assert said in err
    assert listed(capsys, store) == []


def test_a_store_that_is_none_is_told(capsys: Captured, store: Path) -> None:
    store.write_text("something else entirely, and long enough to be looked at " * 20)
    status, _, err = run(capsys, store, "list")
    assert status == 1
    assert str(store) in err.replace("\n", "")


def test_the_settings_say_where_the_keys_are(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "spillway.yaml"
    base = (
        "endpoints: {gpu: {kind: triton, zone: onprem, grpc: 'gpu:1'}}\n"
        "models: {m: {served_by: [{endpoint: gpu}]}}\n"
    )
    settings.write_text(base)
    monkeypatch.chdir(tmp_path)
    assert main(["keys", "create", "acme"]) == 2
    assert "key_store" in capsys.readouterr().err
    settings.write_text(base + "key_store: var/keys.db\n")
    assert main(["keys", "create", "acme"]) == 0
    assert (tmp_path / "var" / "keys.db").exists()


@pytest.mark.anyio
async def test_a_gateway_that_runs_refuses_a_revoked_key_within_five_seconds(
    capsys: Captured, store: Path
) -> None:
    """By the clock on the wall: nothing but the file is between the command and the gateway."""
    first = created(capsys, store, "acme")
    known = callers(store)
    running = asyncio.create_task(known.run())
    try:
        late = created(capsys, store, "acme")
        await _until(lambda: _accepted(known, late))
        assert _accepted(known, first)
        began_s = time.monotonic()
        run(capsys, store, "revoke", first[7:19])
        await _until(lambda: not _accepted(known, first))
        assert time.monotonic() - began_s < TRUSTED_S
        assert _accepted(known, late)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _accepted(known: Callers, key: str) -> bool:
    try:
        return known.identify(f"Bearer {key}").tenant == "acme"
    except GatewayError:
        return False


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110 - what is waited for is a file, and tells nobody
            await asyncio.sleep(0.02)
