"""Models of four exporters, from their file to answers: each serves what its graph says alone, or
is refused with the cause."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpcclient

from gateway.__main__ import main
from gateway.models import declaration
from gateway.models.adoption import adopt
from gateway.models.registry.kinds.directory import DirectoryRegistry
from gateway.models.registry.pushing import Push, push
from tests import live
from tests.live import LiveGateway
from tests.scenarios.exports import ExportCase, networks, scikit_learn, zoo
from tests.scenarios.exports.served import GraphAlone, assert_same, call

pytest.importorskip("pytriton", reason="the embedded Triton needs Python 3.11 or 3.12")

CASES: dict[str, ExportCase] = {**scikit_learn.CASES, **zoo.CASES, **networks.CASES}
SERVED = [name for name, case in CASES.items() if case.refused is None]
TEXTS = [name for name in SERVED if "texts" in name]
TENSORS = [name for name in SERVED if name not in TEXTS]
VERSIONED = ("maps_of_words", "weights_beside", "float16", "softmax_over_rows", "texts")
CALLERS = 6
BY = 1_795_000_000.0  # a moment of 2026


@dataclass(frozen=True, slots=True)
class Built:
    """The outcome for every file."""

    repository: Path
    files: dict[str, Path]
    exits: dict[str, int]
    said: dict[str, str]


def build(repository: Path, file: Path, name: str, *options: str) -> int:
    return main(
        ["models", "build", str(file), "--as", name, "--repository", str(repository),
         "--no-profile", "--engine", "none", *options]
    )  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    scratch = tmp_path_factory.mktemp("exports")
    made = Built(scratch / "models", {}, {}, {})
    made.repository.mkdir()
    for name, case in CASES.items():
        made.files[name] = case.write(scratch / f"{name}.onnx")
        options = case.options(made.files[name])
        with contextlib.redirect_stderr(io.StringIO()) as said:
            made.exits[name] = build(made.repository, made.files[name], name, *options)
        made.said[name] = said.getvalue()
    return made


@pytest.fixture(scope="module")
def gateway(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    scratch = tmp_path_factory.mktemp("serving")
    document = live.settings(None, scratch)
    document["endpoints"]["local"] |= {"repository": str(built.repository), "reload": True}
    document["models"] = {}
    for name in SERVED:
        declared = declaration.load(built.repository / name / declaration.FILE)
        document["models"] |= adopt.declared_settings(declared)
    with live.serving(document, scratch) as serving:
        yield serving


@pytest.fixture(scope="module")
def client(gateway: LiveGateway) -> Iterator[grpcclient.InferenceServerClient]:
    with grpcclient.InferenceServerClient(gateway.grpc_target) as serving:
        yield serving


def rows_of(built: Built, name: str) -> bool:
    """Whether a call may have several rows."""
    return declaration.load(built.repository / name / declaration.FILE).batch is not None


def test_there_are_forty_of_them_and_more() -> None:
    assert len(CASES) >= 40


@pytest.mark.parametrize("name", CASES)
def test_a_file_is_adopted_or_refused_with_the_cause(name: str, built: Built) -> None:
    case, said = CASES[name], built.said[name]
    if case.refused is None:
        assert built.exits[name] == 0, said
        declared = declaration.load(built.repository / name / declaration.FILE)
        joined = declared.max_batch > 1 and declared.batching.dynamic
        assert joined is case.batched
        return
    assert built.exits[name] == 2
    assert re.search(case.refused, said), said
    assert str(built.files[name]) in said
    assert ".staging-" not in said


def test_what_was_refused_left_nothing_behind(built: Built) -> None:
    assert sorted(path.name for path in built.repository.iterdir()) == sorted(SERVED)


def test_all_of_them_verify(built: Built, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "verify", "--repository", str(built.repository), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["models"]) == len(SERVED)


@pytest.mark.parametrize("name", TENSORS)
def test_it_serves_what_its_graph_says_alone(
    name: str, built: Built, client: grpcclient.InferenceServerClient
) -> None:
    graph = GraphAlone(built.files[name], CASES[name])
    for rows in (1, 3):
        feed = graph.rows(rows, seed=rows)
        assert_same(call(client, name, feed, rows_of(built, name)), graph.answer(feed))


@pytest.mark.parametrize("name", TENSORS)
def test_it_does_so_for_callers_at_the_same_time(
    name: str, built: Built, client: grpcclient.InferenceServerClient
) -> None:
    graph = GraphAlone(built.files[name], CASES[name])
    feeds = [graph.rows(1 + at % 2, seed=10 + at) for at in range(CALLERS)]
    batched = rows_of(built, name)
    with ThreadPoolExecutor(CALLERS) as callers:
        answers = list(callers.map(lambda feed: call(client, name, feed, batched), feeds))
    for feed, served in zip(feeds, answers, strict=True):
        assert_same(served, graph.answer(feed))


def embedded(client: grpcclient.InferenceServerClient, name: str, *texts: str) -> Any:
    feed = {"text": np.array([[text] for text in texts], object)}
    return call(client, name, feed)["embedding"]


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_has_one_vector_whoever_stands_beside_it(
    name: str, client: grpcclient.InferenceServerClient
) -> None:
    texts = ("the red ropes over the water", "home", "spill the cloud")
    alone = [embedded(client, name, text)[0] for text in texts]
    with ThreadPoolExecutor(CALLERS) as callers:
        at_once = list(callers.map(lambda text: embedded(client, name, text)[0], texts * 2))
    np.testing.assert_allclose(at_once, alone * 2, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", VERSIONED)
def test_a_version_is_measured_pulled_and_rolled_back(
    name: str,
    built: Built,
    gateway: LiveGateway,
    client: grpcclient.InferenceServerClient,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = str(gateway.audit.parent / "spillway.yaml")
    retrained = tmp_path / "elsewhere" / name
    shutil.copytree(built.repository / name, retrained)
    (retrained / "1").rename(retrained / "2")
    registry = DirectoryRegistry(tmp_path / "shelf")
    push(Push(retrained.parent, name, 2, wall_s=lambda: BY), registry)
    at = ["--repository", str(built.repository), "--json"]

    def spillway(*words: str) -> dict[str, Any]:
        capsys.readouterr()
        assert main(["models", *words, *at]) == 0
        said: dict[str, Any] = json.loads(capsys.readouterr().out)
        return said

    assert spillway("profile", name, "--url", gateway.grpc_target, "--callers", "2",
                    "--seconds", "0.05", "--rounds", "1", "--dry-run")  # fmt: skip
    shelf = str(tmp_path / "shelf")
    pulled = spillway("pull", name, "--config", config, "--from", shelf, "--no-trial")
    assert (pulled["version"], pulled["before"], len(pulled["serving"])) == (2, 1, 1)
    back = spillway("rollback", name)
    assert (back["version"], back["withdrawn"]) == (1, [2])
    if name in TENSORS:
        graph = GraphAlone(built.files[name], CASES[name])
        feed = graph.rows(2, seed=5)
        assert_same(call(client, name, feed, rows_of(built, name)), graph.answer(feed))
