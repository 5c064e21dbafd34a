"""The declared canary on the wire, and what is made of its answer."""

from __future__ import annotations

import asyncio
import math
import shutil
from pathlib import Path

import pytest

from gateway.core.types import Tensor
from gateway.endpoints.triton.server.launch import TritonLaunch
from gateway.endpoints.triton.server.options import TritonOptions
from gateway.endpoints.triton.server.server import TritonServer
from gateway.models import declaration as declarations
from gateway.models.declaration import Declaration
from gateway.models.registry import RegistryError, canary
from gateway.models.registry.server import Server, ServerError, over
from gateway.models.registry.warming import warm
from gateway.protocols.oip.datatypes import join
from tests.live import MODELS
from tests.unit.models.registry import rig
from tests.unit.models.registry.rig import NAME

pytestmark = pytest.mark.anyio

_TEXT = """
name: one
about: one
licence: none
source: {{script: x}}
inputs:
  x: {{datatype: {datatype}, dims: [2]}}
  more: {{datatype: FP32, dims: [1], optional: true}}
outputs:
  y: {{datatype: {datatype}, dims: [2]}}
batch: {{min: 1, opt: 4, max: 8}}
targets:
  embedded: {{backend: python}}
canary:
  inputs:
    x: {{values: {values}}}
  outputs:
    y: {{first: [{first}], tolerance: 0.01}}
"""


def declared(datatype: str = "FP32", values: str = "[1, 2]", first: str = "1, 2") -> Declaration:
    return declarations.parse(_TEXT.format(datatype=datatype, values=values, first=first))


@pytest.mark.parametrize(
    ("datatype", "data"),
    [
        ("FP32", "0000803f00000040"),
        ("FP64", "000000000000f03f0000000000000040"),
        ("FP16", "003c0040"),
        ("BF16", "803f0040"),
        ("INT8", "0102"),
        ("UINT16", "01000200"),
        ("INT32", "0100000002000000"),
        ("UINT64", "01000000000000000200000000000000"),
        ("BOOL", "0101"),
    ],
)
def test_every_datatype_goes_and_comes_in_its_own_bytes(datatype: str, data: str) -> None:
    one = declared(datatype, first="1" if datatype == "BOOL" else "1, 2")
    (tensor,) = canary.call(one, 3).inputs
    assert (tensor.name, tensor.datatype, tensor.shape) == ("x", datatype, (3, 2))
    assert bytes(tensor.data) == bytes.fromhex(data) * 3
    assert canary.wrong(one, [Tensor("y", datatype, (3, 2), tensor.data)], 3) is None


def test_texts_go_behind_their_lengths() -> None:
    one = declared("BYTES", values='["a", "bc"]')
    (tensor,) = canary.call(one, 2).inputs
    assert bytes(tensor.data) == join([b"a", b"bc", b"a", b"bc"])


FLOATS = {"right": (1.0, 2.0), "near": (1.005, 1.995)}
OFF = {"off": (1.0, 2.1), "no number": (1.0, math.nan), "endless": (math.inf, 2.0)}


def _answer(*rows: tuple[float, float], name: str = "y", datatype: str = "FP32") -> Tensor:
    import numpy as np

    data = np.asarray(rows, "<f4").tobytes()
    return Tensor(name, datatype, (len(rows), 2), data)


@pytest.mark.parametrize("row", FLOATS.values(), ids=FLOATS)
def test_an_answer_within_the_tolerance_passes(row: tuple[float, float]) -> None:
    assert canary.wrong(declared(), [_answer(row)], 1) is None


@pytest.mark.parametrize("row", OFF.values(), ids=OFF)
def test_one_wrong_row_of_many_is_noticed(row: tuple[float, float]) -> None:
    told = canary.wrong(declared(), [_answer((1.0, 2.0), row)], 2)
    assert told is not None
    assert "the canary's y begins with" in told


@pytest.mark.parametrize(
    ("answer", "rows", "told"),
    [
        (_answer((1.0, 2.0), name="z"), 1, "does not answer the output y"),
        (_answer((1.0, 2.0), datatype="INT32"), 1, "is INT32; declared is FP32"),
        (_answer((1.0, 2.0)), 2, "for 2 rows"),
        (Tensor("y", "FP32", (1, 1), bytes(4)), 1, r"is \[1\]; declared is \[2\]"),
        (Tensor("y", "FP32", (1, 2, 1), bytes(8)), 1, "declared is"),
    ],
)
def test_an_answer_of_another_form_is_noticed(answer: Tensor, rows: int, told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        assert (canary.wrong(declared(), [answer], rows) or "") == ""


def test_each_declared_batch_size_is_warmed() -> None:
    assert canary.rows_to_warm(declared()) == (1, 4, 8)


async def test_every_model_of_the_repository_can_be_warmed() -> None:
    """Those that declare a canary and are built; one that streams is asked for a stream."""
    found = {path.parent.name: declarations.load(path) for path in declarations.declared(MODELS)}
    names = [
        name
        for name, one in found.items()
        if one.canary and (one.graph is None or (MODELS / name / "1" / one.graph.file).exists())
    ]
    assert "scribe" in names

    options = TritonOptions((MODELS,), tuple(names), stop_grace_s=1.0)
    async with TritonServer(options) as server:
        ours = Server(f"http://127.0.0.1:{server.ports.http}")
        for name in names:
            one = found[name]
            warmed = await asyncio.to_thread(warm, ours, one, None)
            assert [w.rows for w in warmed] == list(canary.rows_to_warm(one)), name


class Polling(TritonServer):
    """A Triton that looks for new versions by itself, as operators start some."""

    async def _prepare(self) -> TritonLaunch:
        launch = await super()._prepare()
        launch.command += ["--model-control-mode=poll", "--repository-poll-secs=1"]
        return launch


async def test_a_server_that_looks_for_itself_is_waited_for(tmp_path: Path) -> None:
    repository = rig.repository(tmp_path)

    async with Polling(TritonOptions((repository,), stop_grace_s=1.0)) as server:
        (ours,) = over(repository, f"http://127.0.0.1:{server.ports.http}")
        shutil.copytree(repository / NAME / "1", tmp_path / "2")
        (tmp_path / "2").rename(repository / NAME / "2")
        await asyncio.to_thread(ours.load, NAME, 2)
        assert await asyncio.to_thread(ours.serving, NAME) == 2


async def test_a_version_that_a_policy_leaves_out_is_not_taken_for_served(tmp_path: Path) -> None:
    repository = rig.repository(tmp_path)
    config = repository / NAME / "config.pbtxt"
    config.write_text(config.read_text() + "version_policy { specific { versions: [ 1 ] } }\n")
    shutil.copytree(repository / NAME / "1", repository / NAME / "2")

    options = TritonOptions((repository,), reload=True, stop_grace_s=1.0)
    async with TritonServer(options):
        (ours,) = over(repository, None)
        with pytest.raises(ServerError, match="version_policy"):
            await asyncio.to_thread(ours.load, NAME, 2)


@pytest.mark.parametrize(
    "url",
    ["https://gpu-1:8000", "gpu-1:8000", "http://", "http://8.8.8.8:8000", "http://triton.com:1"],
)
def test_a_server_that_could_be_elsewhere_is_not_asked(url: str, tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="of a Triton on the premises"):
        over(tmp_path, url)


def test_a_server_that_is_not_there_is_said_to_be_not_there() -> None:
    with pytest.raises(ServerError, match="does not answer"):
        Server("http://127.0.0.1:9").serving(NAME)


async def test_without_a_canary_a_version_must_load_and_cannot_be_warmed(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    shutil.copytree(MODELS / "all_types", repository / "all_types")
    one = declarations.load(repository / "all_types" / declarations.FILE)
    assert one.canary is None

    async with TritonServer(TritonOptions((repository,), stop_grace_s=1.0)):
        (ours,) = over(repository, None)
        await asyncio.to_thread(ours.ask, one, 1, 1)
        with pytest.raises(ServerError, match="does not serve version 2"):
            await asyncio.to_thread(ours.ask, one, 2, 1)
        with pytest.raises(RegistryError, match="declares no canary to warm it with"):
            await asyncio.to_thread(warm, ours, one, None)
