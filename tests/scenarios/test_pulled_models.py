"""A running gateway takes a new version of a model: its callers notice the version alone."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from gateway import __main__ as command_line
from gateway.models.registry import workshop
from tests.live import LiveGateway, serving, settings, wait_until
from tests.unit.models import graphs
from tests.unit.models.registry import rig
from tests.unit.models.registry.broken import swap
from tests.unit.models.registry.rig import NAME

FEATURES = [220.0, 4.0, 14.5, 480.0, 2.0, 5.0, 3.0, 900.0, 0.4, 0.0, 0.0, 0.0]
CALL = {
    "inputs": [{"name": "features", "datatype": "FP32", "shape": [1, 12], "data": FEATURES}]
}  # fmt: skip


class Caller:
    """Calls without a pause, until it is told to stop."""

    def __init__(
        self, gateway: LiveGateway, name: str = NAME, call: Mapping[str, object] = CALL
    ) -> None:
        self._call_body = call
        self.answers: list[tuple[int, str]] = []
        self._url = f"{gateway.http_url}/v2/models/{name}/infer"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._call, daemon=True)

    def __enter__(self) -> Caller:
        self._thread.start()
        return self

    def __exit__(self, *of: object) -> None:
        self._over.set()
        self._thread.join(30)

    def _call(self) -> None:
        with httpx.Client(trust_env=False, timeout=30) as client:
            while not self._over.is_set():
                answer = client.post(self._url, json=self._call_body)
                said = answer.json().get("model_version", answer.text)
                self.answers.append((answer.status_code, said))

    def until(self, version: str) -> None:
        """A call that was answered by this version."""
        seen = len(self.answers)
        wait_until(lambda: (200, version) in self.answers[seen:], 30)


@pytest.fixture(scope="module")
def placed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveGateway, Path]]:
    pytest.importorskip("pytriton", reason="the embedded Triton needs Python 3.11 or 3.12")
    scratch = tmp_path_factory.mktemp("pulled")
    repository = rig.repository(scratch)
    document: dict[str, Any] = settings(None, scratch)
    document["endpoints"]["local"] |= {"repository": str(repository), "reload": True}
    document["models"] = {NAME: {"served_by": [{"endpoint": "local"}]}}
    document["registries"] = {"shelf": {"url": str(rig.shelf(scratch))}}
    with serving(document, scratch) as gateway:
        yield gateway, scratch


def spillway(scratch: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """A `spillway models` command, on the settings of the gateway that runs."""
    capsys.readouterr()
    command_line.main(["models", *words, "--repository", str(scratch / "models"), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_no_call_is_lost_while_versions_come_go_and_fail(
    placed: tuple[LiveGateway, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    gateway, scratch = placed
    config = ("--config", str(scratch / "spillway.yaml"))
    with Caller(gateway) as caller:
        caller.until("1")
        would = spillway(scratch, capsys, "pull", NAME, *config, "--dry-run")
        assert (would["ok"], would["version"], would["installed"]) == (True, 2, False)

        done = spillway(scratch, capsys, "pull", NAME, *config, "--from", "shelf")
        assert (done["ok"], done["version"], done["before"]) == (True, 2, 1)
        assert len(done["serving"]) == 1
        assert done["notes"] == []
        caller.until("2")

        warmed = spillway(scratch, capsys, "warm", NAME)
        (sizes,) = warmed["servers"].values()
        assert [size["rows"] for size in sizes] == [1, 16, 64]

        back = spillway(scratch, capsys, "rollback", NAME)
        assert (back["version"], back["before"], back["withdrawn"]) == (1, 2, [2])
        caller.until("1")

        text = (scratch / "models" / NAME / "1" / "runtime.py").read_bytes()
        wrong = swap(text, rig.ANSWERS, rig.HALVED)
        shelf = rig.shelf(scratch, 3)
        rig.rewritten(shelf / NAME / "3", runtime_dot_py=wrong)
        refused = spillway(scratch, capsys, "pull", NAME, *config, "--no-trial")
        assert not refused["ok"]
        assert "the canary's score begins with" in refused["error"]
        caller.until("1")
    assert {status for status, _ in caller.answers} == {200}
    assert "local: down" not in gateway.log_path.read_text()
    assert sorted(p.name for p in (scratch / "models" / NAME).glob("[0-9]*")) == ["1"]


def test_a_retrained_version_goes_back_and_forward_under_load(
    placed: tuple[LiveGateway, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    gateway, scratch = placed
    elsewhere = scratch / "retrained"
    elsewhere.mkdir()
    rig.retrained(elsewhere, 7)
    with Caller(gateway) as caller:
        caller.until("1")
        done = spillway(scratch, capsys, "pull", NAME, "--from", str(elsewhere / "shelf"))
        assert (done["ok"], done["version"]) == (True, 7)
        caller.until("7")
        for target in ("1", "7", "1"):
            back = spillway(scratch, capsys, "rollback", NAME, "--to", target)
            assert (back["ok"], len(back["serving"])) == (True, 1)
            caller.until(target)
    assert {status for status, _ in caller.answers} == {200}
    with workshop.opened(scratch / "models", NAME) as shop:
        shop.forget_withdrawn(7)


def test_one_command_adds_a_model_that_a_running_gateway_serves(
    placed: tuple[LiveGateway, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    gateway, scratch = placed
    config = ("--config", str(scratch / "spillway.yaml"), "--no-profile", "--engine", "none")
    rows = {"name": "rows", "datatype": "FP32", "shape": [1, 4], "data": [1.0] * 4}
    answers = []
    for version in (1, 2):
        file = graphs.scores(scratch / f"scores-{version}.onnx", seed=version)
        done = spillway(scratch, capsys, "build", str(file), "--as", "scores", *config)
        assert len(done["serving"]) == 1
        ready = f"/v2/models/scores/versions/{done['added']['version']}/ready"
        wait_until(lambda path=ready: gateway.client.get(path).status_code == 200, 10)
        answer = gateway.client.post("/v2/models/scores/infer", json={"inputs": [rows]}).json()
        assert answer["model_version"] == str(done["added"]["version"])
        answers.append(answer["outputs"][0]["data"])
    assert answers[0] != answers[1]


def test_a_split_among_two_versions_outlives_a_rollback(
    placed: tuple[LiveGateway, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    gateway, scratch = placed
    path = scratch / "spillway.yaml"
    for version in (1, 2):
        file = graphs.scores(scratch / f"halves-{version}.onnx", seed=version)
        words = ("--as", "halves", "--config", str(path), "--no-profile", "--engine", "none")
        assert spillway(scratch, capsys, "build", str(file), *words)["serving"]
    with (scratch / "models/halves/2/model.yaml").open("a") as declaration:
        declaration.write("loaded_versions: 2\n")
    spillway(scratch, capsys, "config", "halves")
    document = yaml.safe_load(path.read_text())
    document["models"]["halves"]["versions"] = {"1": 50, "2": 50}
    path.write_text(yaml.safe_dump(document))
    call = {"inputs": [{"name": "rows", "datatype": "FP32", "shape": [1, 4], "data": [1.0] * 4}]}
    assert split_of(scratch, capsys) == {"1": 50, "2": 50}
    with Caller(gateway, "halves", call) as caller:
        caller.until("1")
        caller.until("2")
        for to, there in (("1", {"1"}), ("2", {"1", "2"})):
            spillway(scratch, capsys, "rollback", "halves", "--to", to)
            for each in there:
                caller.until(each)
            behind = len(caller.answers)
            wait_until(lambda count=behind: len(caller.answers) > count + 20, 30)
            assert {version for _, version in caller.answers[behind:]} == there
    assert {status for status, _ in caller.answers} == {200}


def split_of(scratch: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    capsys.readouterr()
    where = ["--repository", str(scratch / "models"), "--config", str(scratch / "spillway.yaml")]
    command_line.main(["models", "ls", "--json", *where])
    (split,) = [m["split"] for m in json.loads(capsys.readouterr().out) if m["name"] == "halves"]
    assert isinstance(split, dict)
    return split


def test_callers_cannot_reach_what_loads_models(placed: tuple[LiveGateway, Path]) -> None:
    gateway, _ = placed
    for path in (f"/v2/repository/models/{NAME}/load", f"/v2/repository/models/{NAME}/unload"):
        assert gateway.client.post(path, json={}).status_code == 404
    listed = gateway.client.post("/v2/repository/index", json={}).json()
    assert NAME in [model["name"] for model in listed]


def test_the_settings_of_registries_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "spillway.yaml"
    document: dict[str, Any] = settings(None, tmp_path)
    document["registries"] = {"a": {"url": "/a"}, "b": {"url": "/b"}}
    config.write_text(yaml.safe_dump(document))
    asked = ["models", "pull", NAME, "--config", str(config)]
    assert command_line.main(asked) == 2
    assert "the settings have a, b" in capsys.readouterr().err.replace("\n", " ")
    assert command_line.main([*asked, "--from", "c"]) == 2
    document["registries"] = {"a": {"url": "/a", "access_key": "${HOME}"}}
    config.write_text(yaml.safe_dump(document))
    assert command_line.main(asked) == 2
    assert "access_key and secret_key go together" in capsys.readouterr().err
    shutil.rmtree(tmp_path)
