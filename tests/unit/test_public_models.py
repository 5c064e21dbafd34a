"""A model that the operator declares public: what may be said of it, and where its calls may go."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from gateway import config
from gateway.__main__ import main
from gateway.config.model_catalog import Catalog
from gateway.core.types import (
    ONPREM_ONLY,
    PUBLIC_MODEL,
    Classification,
    InferenceRequest,
    Sensitivity,
    Zone,
)
from tests.unit.harness import Rig, ScriptedClassifier, Setup, cloud, onprem, request

pytestmark = pytest.mark.leaping

PLACES = (
    "endpoints:\n"
    "  gpu: {kind: triton, zone: onprem, grpc: gpu-1:8001}\n"
    "  away: {kind: openai, zone: cloud, url: https://api.example.com}\n"
    "models:\n"
)
SERVED = "task: generate, served_by: [{endpoint: gpu}, {endpoint: away, price_usd: 0.001}]"
REASON = "public_reason: the plays of Shakespeare"


def settings(*said: str) -> config.Settings:
    return config.parse(f"{PLACES}  poems: {{{', '.join((SERVED, *said))}}}\n")


def test_a_model_is_public_by_the_operator_s_word_and_reason_alone() -> None:
    assert not Catalog.from_settings(settings()).find("poems").public
    assert Catalog.from_settings(settings("public: true", REASON)).find("poems").public


@pytest.mark.parametrize(
    ("said", "key", "told"),
    [
        (("public: true",), "public", "public_reason"),
        (("public: true", "public_reason: ' '"), "public", "public_reason"),
        (("public: false", REASON), "public_reason", "not public"),
        (("public: true", REASON, "pseudonymise: true"), "pseudonymise", "not read"),
        (("public: true", REASON, "tensors: restricted"), "tensors", "contradicts"),
    ],
)
def test_what_contradicts_it_is_refused(said: tuple[str, ...], key: str, told: str) -> None:
    with pytest.raises(config.ConfigError) as caught:
        settings(*said)
    assert f"models.poems.{key}: " in str(caught.value)
    assert told in str(caught.value)


def test_a_model_that_an_on_prem_server_has_and_nobody_declared_is_not_public() -> None:
    catalog = Catalog.from_settings(settings("public: true", REASON))
    catalog.add_undeclared("gpu", ["poems", "stray"])
    assert not catalog.find("stray").public


def test_check_names_it_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spillway.yaml"
    path.write_text(f"{PLACES}  poems: {{{SERVED}, public: true, {REASON}}}\n")
    assert main(["check", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["public"] == {"poems": "the plays of Shakespeare"}
    assert main(["check", str(path)]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "calls of poems are not read and may leave" in told
    assert "the plays of Shakespeare" in told


class Unread(ScriptedClassifier):
    """Says of every call what the classifier says of one to a public model."""

    async def classify(self, request: InferenceRequest) -> Classification:
        return Classification(request.id, Sensitivity.CLEAR, PUBLIC_MODEL, complete=True)


@pytest.mark.parametrize("block", [False, True])
async def test_its_calls_may_leave_and_their_records_say_that_nothing_was_looked_for(
    block: bool,
) -> None:
    rig = Rig(cloud(), setup=Setup(classifier=Unread(), block_unknown=block))
    ended = await rig.call(request("clear"))
    assert ended.placement is not None
    assert ended.placement.zone is Zone.CLOUD
    record = rig.log.lines[-1]
    assert (record["sensitivity"], record["classify_reason"]) == ("clear", "public_model")
    assert (record["looked_for"], record["entities"]) == ("nothing", {})


async def test_a_caller_who_wants_it_on_the_premises_has_it_there() -> None:
    rig = Rig(onprem(), cloud(), setup=Setup(classifier=Unread()))
    ended = await rig.call(dataclasses.replace(request("clear"), zones=ONPREM_ONLY))
    assert ended.placement is not None
    assert ended.placement.zone is Zone.ONPREM
    assert rig.cloud_seen == []
