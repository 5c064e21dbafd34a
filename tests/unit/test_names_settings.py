"""O1 for `classify.names`: what may be said of it, and what contradicts itself, with its line."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest
import yaml
from presidio_analyzer.input_validation import ConfigurationValidator

from gateway import config
from gateway.classify.names.engines import presidio
from gateway.classify.scan_workers.frames import WorkerSpec
from gateway.config import ClassifySettings, NamesSettings
from tests.unit.classify.presidio_recognizers import AfterMet
from tests.unit.settings_text import GOOD, changed, refusal


def names(value: str, text: str = GOOD) -> NamesSettings:
    return config.parse(with_names(value, text)).classify.names


def with_names(value: str, text: str = GOOD) -> str:
    return f"{text}classify:\n  names: {value}\n"


def told(value: str, text: str = GOOD) -> str:
    return refusal(with_names(value, text))


def test_without_a_word_the_model_that_ships_reads_at_the_door() -> None:
    found = config.parse(GOOD).classify.names
    assert (found.engine, found.when, found.other_languages) == (
        "builtin",
        "at_the_door",
        "restrict",
    )


@pytest.mark.parametrize("when", ["at_the_door", "always"])
def test_a_word_alone_says_when(when: str) -> None:
    assert names(when) == names(f"{{when: {when}}}")


@pytest.mark.parametrize("off", ["off", "'off'", "false", "{engine: off}", "{engine: 'off'}"])
def test_off_is_off_also_where_yaml_takes_it_for_a_boolean(off: str) -> None:
    assert names(off).engine == "off"


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("never", "classify.names.when: "),
        ("true", "classify.names: "),
        ("[]", "classify.names: "),
        ("{when: false}", "classify.names.when: "),
        ("{engine: spacy}", "classify.names.engine: "),
        ("{other_languages: allow}", "classify.names.other_languages: "),
        ("{profile: strict}", "classify.names.profile: unknown key"),
    ],
)
def test_what_it_cannot_be_is_refused(value: str, key: str) -> None:
    assert told(value).startswith(f"f.yaml:19: {key}")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("{engine: off, when: always}", "when: the engine is off, so it counts for nothing"),
        ("{engine: builtin, endpoint: gpu}", "endpoint: only engine triton has one; drop it"),
        ("{engine: presidio, model: other}", "model: only engine triton has one; drop it"),
        ("{modules: [mine]}", "modules: only engine presidio has one; drop it"),
        ("{samples: [Ada]}", "samples: only engine presidio has one; drop it"),
        ("{engine: triton, nlp_configuration: FILE}", "nlp_configuration: only engine presidio"),
        ("{recognizers: FILE}", "recognizers: only engine presidio has one; drop it"),
        ("{engine: presidio, recognizers: none.yaml}", "recognizers: Path does not point to a"),
    ],
)
def test_what_does_not_go_together_is_refused(value: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "engine.yaml"
    path.touch()
    found = told(value.replace("FILE", str(path)))
    assert found.startswith(f"f.yaml:19: classify.names.{problem}")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("{engine: triton}", "engine triton needs endpoint: one of zone onprem"),
        ("{engine: presidio}", "engine presidio needs nlp_configuration, recognizers or both"),
        ("{engine: presidio, samples: [Ada]}", "engine presidio needs nlp_configuration"),
    ],
)
def test_what_an_engine_needs_must_be_there(value: str, problem: str) -> None:
    assert told(value).startswith(f"f.yaml:19: classify.names: {problem}")


# Where the texts of all calls go, before any of them is known to be clear.


def test_names_are_looked_for_on_an_endpoint_of_the_premises() -> None:
    assert names("{engine: triton, endpoint: gpu, model: n}").model == "n"


@pytest.mark.parametrize(
    ("endpoint", "problem"),
    [
        ("out", "'out' is not in zone onprem; take one that is"),
        ("none", "no endpoint 'none'; there are: gpu, out"),
    ],
)
def test_names_are_looked_for_nowhere_else(endpoint: str, problem: str) -> None:
    found = told(f"{{engine: triton, endpoint: {endpoint}}}")
    assert found == f"f.yaml:19: classify.names.endpoint: {problem}"


def test_a_cloud_that_speaks_the_protocol_is_no_place_for_names() -> None:
    cloud = "kind: kserve\n    zone: cloud\n    grpc: gpu-1:8001\n"
    text = changed("kind: triton\n    zone: onprem\n    grpc: gpu-1:8001\n", cloud)
    assert "is not in zone onprem" in told("{engine: triton, endpoint: gpu}", text)


def test_an_endpoint_that_takes_no_tensors_is_refused() -> None:
    vllm = "kind: openai\n    zone: onprem\n    url: http://gpu-1:8000/v1\n"
    text = changed("kind: triton\n    zone: onprem\n    grpc: gpu-1:8001\n", vllm)
    assert told("{engine: triton, endpoint: gpu}", text).endswith(
        "classify.names.endpoint: 'gpu' speaks OpenAI and cannot serve tensors"
    )


@pytest.mark.parametrize(
    "given",
    [
        {"engine": "off"},
        {"engine": "triton", "endpoint": "gpu"},
        {"engine": "presidio", "nlp_configuration": __file__, "samples": ["Ada"]},
    ],
)
def test_a_worker_gets_the_settings_that_the_file_says(given: dict[str, object]) -> None:
    """Over the pipe all keys are sent, also those that nobody stated."""
    settings = ClassifySettings.model_validate({"names": given})
    frame = WorkerSpec(settings).pack()
    told = WorkerSpec.unpack(orjson.loads(frame[4:])).settings
    assert NamesSettings.model_validate(told.names) == settings.names
    for name in ("languages", "threshold", "allow_list", "deny_list", "registry", "recognizers"):
        assert getattr(told, name) == getattr(settings, name)


PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "names.md").read_text()
EXAMPLES = re.findall(r"^```yaml\n(classify:.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
FILES = re.findall(r"^```yaml\n((?!classify:).*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_of_the_page_are_valid(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nlp, recognizers = FILES
    (tmp_path / "nlp.yaml").write_text(nlp)
    (tmp_path / "recognizers.yaml").write_text(recognizers)
    settings = config.parse(example + "models: {}\n" if "endpoints:" in example else GOOD + example)
    found = settings.classify.names
    if found.engine == "presidio":
        assert presidio.languages(found)


def test_the_files_of_the_page_are_what_presidio_reads() -> None:
    nlp, recognizers = map(yaml.safe_load, FILES)
    own = type("OurRecognizer", (AfterMet,), {})  # kept: Presidio looks for it by its name
    assert own
    ConfigurationValidator.validate_nlp_configuration(nlp)
    ConfigurationValidator.validate_recognizer_registry_configuration(recognizers)
