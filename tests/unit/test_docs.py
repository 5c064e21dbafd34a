"""The pages say all that there is, and nothing that there is not.

What must be documented is walked out of the code; the tables of docs/ are read and held against it.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import pytest
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from starlette.routing import Route
from tritonclient.grpc import service_pb2

import gateway as package
from gateway import __main__ as command_line
from gateway import config
from gateway.accounting import triton
from gateway.accounting.audit.actions import ACTIONS, Actions
from gateway.accounting.metrics import Metrics
from gateway.classify import NoScan
from gateway.classify.categories import PREFIX
from gateway.classify.conversations import taint
from gateway.classify.pseudonyms import DOUBTS
from gateway.classify.pseudonyms.pseudonymiser import PSEUDONYMISED
from gateway.classify.text import extract
from gateway.config.sections.callers import ScopeSettings
from gateway.core import errors
from gateway.core.errors import GatewayError
from gateway.core.operations.registry import by_path
from gateway.core.types import EVERYWHERE, PUBLIC_MODEL, Attempt, Endpoint, Outcome, Zone
from gateway.pipeline.accounts import Accounts
from gateway.pipeline.call_account import CallAccount
from gateway.pipeline.shadow import comparison
from gateway.server import ops
from gateway.server.kserve import front as kserve
from gateway.server.openai import front as openai
from tests.live import LiveGateway
from tests.unit import harness
from tests.unit.console.console_rig import Desk
from tests.unit.fronts import http_rig

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = (
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    *sorted(DOCS.rglob("*.md")),
)
README = (ROOT / "README.md").read_text()
SOURCES = {p: ast.parse(p.read_bytes()) for p in sorted((ROOT / "gateway").rglob("*.py"))}

_T = TypeVar("_T")
_ROW = re.compile(r"^\|(.+)\|$", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")


def page(name: str) -> str:
    return (DOCS / name).read_text()


def sections(text: str) -> dict[str, str]:
    """Heading (without backticks) -> what stands below it, up to the next heading."""
    parts = re.split(r"^#{1,6} (.+)$", text, flags=re.MULTILINE)
    return {parts[at].replace("`", ""): parts[at + 1] for at in range(1, len(parts), 2)}


def rows(text: str) -> list[list[str]]:
    """The cells of every row of the tables in a text, without heads and rules."""
    found = []
    for table in re.findall(r"(?:^\|.+\|\n)+", text, re.MULTILINE):
        lines = [[c.strip() for c in r.split("|")] for r in _ROW.findall(table)]
        found += lines[2:]
    return found


def first_codes(text: str) -> list[str]:
    """What stands in backticks in the first cell of each row."""
    return [code for row in rows(text) for code in _CODE.findall(row[0])]


# --- settings ---


def settings_sections() -> Iterator[tuple[str, type[BaseModel]]]:
    """The heading of each table of the configuration page, and the model that it must describe."""
    yield "The file", config.Settings
    todo: list[tuple[str, type[BaseModel]]] = [("", config.Settings)]
    while todo:
        at, model = todo.pop(0)
        for name, field in model.model_fields.items():
            for below, many in _models_in(field.annotation):
                where = f"{at}.{name}".lstrip(".") + (".NAME" if many else "")
                yield where, below
                todo.append((where, below))


def _models_in(annotation: Any) -> Iterator[tuple[type[BaseModel], bool]]:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, False
    elif origin is dict:
        yield from ((model, True) for model, _ in _models_in(arguments[1]))
    elif origin in (tuple, typing.Annotated, typing.Union, types.UnionType):
        for argument in arguments:
            yield from _models_in(argument)


SECTIONS = dict(settings_sections())
_SCOPE = list(ScopeSettings.model_fields)  # told once, of keys


def test_configuration_has_a_table_for_every_section() -> None:
    headings = set(sections(page("reference/configuration.md"))) - {"Configuration"}
    assert headings == set(SECTIONS)


@pytest.mark.parametrize("section", sorted(SECTIONS))
def test_every_key_is_documented_with_its_default(section: str) -> None:
    tables = sections(page("reference/configuration.md"))
    table = {row[0].strip("`"): row[1] for row in rows(tables[section])}
    fields = SECTIONS[section].model_fields
    if issubclass(SECTIONS[section], ScopeSettings) and section != "keys.NAME":
        assert f"`keys.NAME`, from `{_SCOPE[0]}`" in " ".join(tables[section].split())
        fields = {name: field for name, field in fields.items() if name not in _SCOPE}
    assert list(table) == list(fields)
    for name, field in fields.items():
        assert table[name] in _spellings(field), f"{section}.{name}"


def _spellings(field: FieldInfo) -> set[str]:
    """How a default may be written."""
    if field.is_required():
        return {"required"}
    default = field.default
    if isinstance(default, BaseModel):
        return {"see below"}
    if default is None:
        return {"none", "the profile's"}
    if default == {}:
        return {"none", "`{}`"}
    if default == "":
        return {"empty"}
    if isinstance(default, Enum):
        default = default.value
    if isinstance(default, tuple):
        return {"`[" + ", ".join(map(str, default)) + "]`"}
    if isinstance(default, bool):
        return {f"`{str(default).lower()}`"}
    return {f"`{default}`"}


# --- metrics ---


def test_every_metric_is_documented_with_its_labels() -> None:
    table = {row[0].strip("`"): (row[1], row[2]) for row in rows(page("reference/metrics.md"))}
    declared = {}
    for metric in vars(Metrics()).values():
        if hasattr(metric, "_labelnames"):
            name = metric._name + ("_total" if metric._type == "counter" else "")
            labels = ", ".join(f"`{label}`" for label in metric._labelnames)
            declared[name] = (metric._type, labels)
    for figure in triton.FIGURES.values():
        name = figure.name + ("_total" if figure.type == "counter" else "")
        declared[name] = (figure.type, ", ".join(f"`{label}`" for label in triton.labels(figure)))
    declared[triton.STALE] = ("gauge", "`endpoint`")
    assert table == declared


def test_every_metric_is_set_somewhere() -> None:
    """A metric that never moves would make its page a lie."""
    declared = {name for name, m in vars(Metrics()).items() if hasattr(m, "_labelnames")}
    own = ROOT / "gateway" / "accounting" / "metrics.py"
    used = {
        node.attr
        for path, tree in SOURCES.items()
        if path != own
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
    }
    assert declared <= used


# --- headers ---


def strings(under: str, but: str = "-") -> set[str]:
    """Every string constant of the code below gateway/`under`, documentation excepted, and what
    stands below gateway/`but`."""
    found = set()
    for path, tree in SOURCES.items():
        file = path.relative_to(ROOT / "gateway").as_posix()
        if not f"{file}/".startswith(f"{under}/") or file.startswith(but):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


FRONTS = strings("server", but="server/console/")


def test_every_header_of_ours_is_documented() -> None:
    documented = set(first_codes(page("reference/headers.md")))
    spelled = {s for s in FRONTS if re.fullmatch(r"(x-[a-z-]+[a-z]|retry-after.*)", s)}
    others = {"traceparent", "authorization", "inference-header-content-length"}
    others |= {"content-encoding", "accept-encoding"}
    assert others <= FRONTS
    assert spelled
    assert spelled | others <= documented


def test_no_header_is_documented_that_nobody_reads_or_writes() -> None:
    own = {h for h in first_codes(page("reference/headers.md")) if h.startswith("x-")}
    assert own <= FRONTS


def test_the_readme_and_the_page_of_headers_agree() -> None:
    documented = set(first_codes(page("reference/headers.md")))
    told = {h for h in first_codes(README) if h.startswith(("x-", "traceparent"))}
    assert told
    assert {h.partition(":")[0] for h in told} <= documented


# --- codes ---


EXTRAS = frozenset({"opentelemetry", "pypdf", "pypdfium2", "cv2", "rapidocr"})


def every_module() -> None:
    for found in pkgutil.walk_packages(package.__path__, "gateway."):
        if not found.name.startswith("gateway.demo") and not found.name.endswith("__main__"):
            try:
                importlib.import_module(found.name)
            except ModuleNotFoundError as missing:  # of an extra, which has no codes
                if (missing.name or "").partition(".")[0] not in EXTRAS:
                    raise


def descendants(kind: type[_T]) -> Iterator[type[_T]]:
    for below in kind.__subclasses__():
        yield below
        yield from descendants(below)


def error_codes() -> set[str]:
    """Of the tree of errors, and those that are given where one is raised."""
    every_module()
    found = {GatewayError.reason, *(e.reason for e in descendants(GatewayError))}
    for path, tree in SOURCES.items():
        for node in ast.walk(tree):
            if "demo" not in path.parts and isinstance(node, ast.Call):
                found |= {
                    k.value.value
                    for k in node.keywords
                    if k.arg == "reason"
                    and isinstance(k.value, ast.Constant)
                    and isinstance(k.value.value, str)
                }
    found |= returned("endpoints/state.py", "unavailable_why")  # given by the code that dispatches
    found |= returned("accounting/spill/budget.py", "__init__") | returned(
        "accounting/spill/control.py", "_stopped"
    )
    return found | {"malformed_head"}  # given by a name; the assertion below keeps it honest


def returned(module: str, *functions: str) -> set[str]:
    """The codes that functions of a module return, or put into what they return."""
    found = set()
    for node in ast.walk(SOURCES[ROOT / "gateway" / module]):
        if isinstance(node, ast.FunctionDef) and (not functions or node.name in functions):
            for below in ast.walk(node):
                if isinstance(below, ast.Return | ast.Assign) and below.value is not None:
                    found |= {
                        c.value
                        for c in ast.walk(below.value)
                        if isinstance(c, ast.Constant) and isinstance(c.value, str)
                    }
    return {code for code in found if re.fullmatch(r"[a-z][a-z_]{2,}", code)}


def marks() -> set[str]:
    """What `unscannable:` may be followed by."""
    found = {*extract._OPAQUE_FIELDS.values(), *extract._MEDIA_OBJECTS}
    for path, tree in SOURCES.items():
        if path.is_relative_to(ROOT / "gateway" / "classify"):
            for node in ast.walk(tree):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr == "mark"
                ):
                    found |= {
                        c.value
                        for c in ast.walk(node.args[0])
                        if isinstance(c, ast.Constant) and isinstance(c.value, str)
                    }
    return found


REASONS = sections(page("reference/reasons.md"))


def codes_of(section: str) -> set[str]:
    return set(first_codes(REASONS[section]))


def test_every_code_of_a_placement_is_documented() -> None:
    assert "failover" in strings("pipeline/pipeline.py")
    assert "latency_critical" in strings("scheduling/routing/policy.py")
    queues = (
        "scheduling/best_set/selection.py",
        "scheduling/rules/baselines.py",
        "scheduling/rules/priorities.py",
        "scheduling/queue.py",
    )
    leaving = {s for module in queues for s in strings(module) if s.startswith("spill_")}
    assert codes_of("Placement") == (
        returned("scheduling/routing/policy.py", "_reason")
        | leaving
        | {"failover", "latency_critical"}
    )


def test_every_veto_is_documented() -> None:
    vetoes = returned("scheduling/routing/filters.py") | returned(
        "scheduling/routing/policy.py", "_filter"
    )
    vetoes |= returned("endpoints/state.py", "unavailable_why")
    vetoes |= returned("accounting/spill/budget.py", "closed") | returned(
        "accounting/spill/control.py", "closed"
    )
    documented = set(_CODE.findall(REASONS["Vetoes"]))
    assert vetoes
    assert vetoes <= documented


def test_every_verdict_is_documented() -> None:
    every_module()
    verdicts = {NoScan.reason, *(e.reason for e in descendants(NoScan)), "clear", "entities"}
    verdicts |= {
        extract.OVER_CAP,
        extract.TENSOR_CLASS,
        extract.UNDECLARED,
        extract.UNKNOWN_TENSORS,
    }
    verdicts |= {taint.LABELLED, taint.TAINTED, taint.TAINT_LOST, PSEUDONYMISED, PUBLIC_MODEL}
    assert codes_of("Verdicts") == verdicts | {
        "unscannable:<what>",
        f"{PREFIX}<name>",
        "hook:<name>",
    }


def test_every_doubt_about_pseudonyms_is_documented() -> None:
    assert codes_of("Pseudonym doubts") == set(DOUBTS)


def test_every_code_of_a_shadow_is_documented() -> None:
    own = {comparison.PENDING, comparison.SKIPPED, comparison.FAILED}
    assert codes_of("Shadow policies") == own


def test_everything_that_cannot_be_scanned_is_documented() -> None:
    documented = set(_CODE.findall(REASONS["Verdicts"].rpartition("`<what>`")[2]))
    assert marks() <= documented


def test_every_refusal_is_documented_with_its_status() -> None:
    every_module()
    table = {code: row for row in rows(REASONS["Refusals"]) for code in _CODE.findall(row[0])}
    assert "malformed_head" in strings("protocols/http")
    assert set(table) == error_codes()
    kinds: list[type[GatewayError]] = [GatewayError, *descendants(GatewayError)]
    for kind in kinds:
        row = table[kind.reason]
        if row[1].isdigit():
            assert int(row[1]) == kind.http_status, kind.reason
        if row[2].isupper():
            assert row[2] == kind.grpc_status, kind.reason


def test_retry_advice_is_what_the_page_says() -> None:
    for row in rows(REASONS["Refusals"]):
        kinds = [k for k in descendants(GatewayError) if f"`{k.reason}`" == row[0]]
        for kind in kinds:
            if "__init__" in vars(kind):  # made of other things than a message and a time
                continue
            told = (
                errors.should_retry(kind("x")),
                errors.should_retry(kind("x", retry_after_s=1.0)),
            )
            assert told == {"no": (False, False), "yes": (True, True)}.get(row[3], (False, True))


def test_every_code_of_the_openai_shape_is_documented() -> None:
    codes = {errors.MISSING, errors.WRONG_TYPE, errors.WRONG_VALUE}
    codes |= {errors.NOT_OFFERED} | returned("server/openai/errors.py", "_code")
    assert codes_of("OpenAI error codes") == codes


def test_every_end_is_documented() -> None:
    ends = REASONS["Outcomes"]
    assert {o.value for o in Outcome} <= set(_CODE.findall(ends))
    assert returned("pipeline/pipeline.py", "ending") <= set(first_codes(ends))
    given = {"served", "cancelled", "sent", "egress_forbidden", "down", "ejected"}
    assert given <= set(_CODE.findall(ends))
    assert {"cancelled", "served", "egress_forbidden"} <= strings("pipeline/attempt.py")


# --- routes and methods ---


def test_every_route_is_documented() -> None:
    services = http_rig.services(http_rig.Pipeline())
    fronts = [kserve.front(services), openai.front(services)]
    routes = [r for front in fronts for r in front.routes if isinstance(r, Route)]
    routes += ops.OpsFront(services, bytes, dict, _never).routes()
    routes += harness.run(_console_routes())
    documented = {
        (method or "every", _plain(path))
        for code in _CODE.findall(page("reference/protocols.md"))
        for method, path in [code.rpartition(" ")[::2]]
        if path.startswith("/")
    }
    for route in routes:
        methods = (route.methods or set()) - {"HEAD"}
        path = _plain(route.path.replace("/versions/{version}", ""))
        (method,) = methods if len(methods) == 1 else ("every",)
        assert (method, path) in documented, route.path
    for path in ("/v2/models/{}/infer", *by_path()):
        assert any(front.call(path) for front in fronts), path
        assert ("POST", _plain(path)) in documented, path


async def _console_routes() -> list[Route]:
    return Desk().front.routes()


def _plain(path: str) -> str:
    """A path with every parameter, and every `...`, as a star."""
    return re.sub(r"\{[^}]*\}|\.\.\.", "*", path)


async def _never(request: object) -> Any:
    raise AssertionError("nobody asked")


def test_every_method_of_the_grpc_service_is_documented() -> None:
    methods = {
        m.name for m in service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods
    }
    text = sections(page("reference/protocols.md"))["Open Inference Protocol over gRPC"]
    assert methods <= set(_CODE.findall(text))


# --- records ---


class _Lines:
    def __init__(self) -> None:
        self.lines: list[Mapping[str, Any]] = []

    def check(self) -> None:
        pass

    def append(self, record: Mapping[str, Any]) -> None:
        self.lines.append(record)

    note = append


def test_every_field_of_a_record_is_documented() -> None:
    log = _Lines()
    attempt = Attempt("gpu", Zone.ONPREM, frozenset({Zone.ONPREM}), "served")
    endpoint = Endpoint("gpu", Zone.ONPREM, "triton")

    async def two_calls() -> None:
        accounts = Accounts(log, Metrics(), harness.now_s, "policy")
        refused = CallAccount(accounts, harness.request())
        refused.attempted(attempt)
        refused.settle(Outcome.SHED, "saturated")
        account = CallAccount(accounts, harness.request())
        account.starts(endpoint, frozenset({Zone.ONPREM}), 0.0, "")
        account.attempted(attempt)
        account.settle(Outcome.SERVED, "onprem_room")

    harness.run(two_calls())
    refused, begun, end = log.lines
    tables = sections(page("reference/audit-records.md"))
    call, tried = tables['"kind": "call"'].split("Each of `attempts`:")
    assert first_codes(call) == list(refused)
    assert first_codes(call)[:-1] == list(begun)
    for record in (refused, begun, end):
        assert first_codes(tried) == list(record["attempts"][0])
    assert set(end) <= set(_CODE.findall(tables['"kind": "end"']))


def test_every_field_of_what_leaves_and_of_what_operators_do_is_documented() -> None:
    log = _Lines()

    async def record() -> None:
        accounts = Accounts(log, Metrics(), harness.now_s, "policy", before_dispatch=True)
        account = CallAccount(accounts, harness.request())
        for name in ("cloud", "another"):
            account.starts(Endpoint(name, Zone.CLOUD, "openai"), EVERYWHERE, 0.0, "id")
        account.settle(Outcome.FAILED, "upstream_failed")
        await Actions(log).record("key_create", "by", "on", "keys", at=0.0, tenant="t")

    harness.run(record())
    _, intent, _, action = log.lines
    tables = sections(page("reference/audit-records.md"))
    assert set(intent) <= set(_CODE.findall(tables['"kind": "intent"']))
    assert first_codes(tables['"kind": "action"']) == list(action)
    assert set(ACTIONS) <= set(_CODE.findall(tables['"kind": "action"']))


# --- commands ---


def parser_of(command: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    found = parser.add_subparsers()
    importlib.import_module(command_line.command_module(command)).register(found)
    return found.choices[command]


COMMANDS = command_line._COMMANDS


def test_the_readme_lists_every_command() -> None:
    listed = first_codes(sections(README)["Commands"])
    assert {c for c in listed if c.startswith("spillway ")} == {f"spillway {c}" for c in COMMANDS}


def options_of(parser: argparse.ArgumentParser, words: Sequence[str]) -> set[str]:
    """Of the action that the words name, where a command has actions."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and words:
            return options_of(action.choices[words[0]], words[1:])
    shown = (action for action in parser._actions if action.help != argparse.SUPPRESS)
    return {option for action in shown for option in action.option_strings} - {"-h"}


def test_the_page_of_commands_has_every_option() -> None:
    """In the row of the command, in the words above its table, or in those at the top."""
    commands = page("reference/cli.md")
    told = {_CODE.findall(row[0])[0]: row[-1] for row in rows(commands)}
    above = {name: text.partition("\n|")[0] for name, text in sections(commands).items()}
    for command in COMMANDS:
        for words in actions_of(parser_of(command)):
            name = " ".join(("spillway", command, *words))
            text = told[name] + above["Command line"] + above.get(command, "")
            missing = options_of(parser_of(command), words) - set(re.findall(r"`(-[-a-z]+)", text))
            assert not missing, name


def actions_of(parser: argparse.ArgumentParser) -> list[tuple[str, ...]]:
    """The words that name each action of a command, none where it has no actions."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return [(name,) for name in action.choices]
    return [()]


def test_every_command_that_a_page_shows_exists() -> None:
    shown = 0
    for path in PAGES:
        for line in _command_lines(path.read_text(), "spillway"):
            words = shlex.split(line, comments=True)[1:]
            if not words or words[0].startswith("-"):
                continue
            assert words[0] in COMMANDS, f"{path.name}: {line}"
            options = {w.partition("=")[0] for w in words if w.startswith("--")}
            known = options_of(parser_of(words[0]), words[1:])
            assert options <= known, f"{path.name}: {line}"
            shown += 1
    assert shown > len(COMMANDS)


def test_every_make_target_that_a_page_shows_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for path in PAGES:
        for line in _command_lines(path.read_text(), "make"):
            for word in shlex.split(line, comments=True)[1:]:
                if "=" not in word:
                    assert word in targets, f"{path.name}: {line}"


def _command_lines(text: str, program: str) -> Iterator[str]:
    """In a block of code, or in backticks."""
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if re.match(rf"(?:\.venv/bin/)?{program} ", line):
                yield line
    for code in _CODE.findall(re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)):
        if code.startswith(f"{program} "):
            yield re.split(r" [>|] ", code)[0]


# --- links ---


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#{1,6} (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize(
    "path",
    [
        *PAGES,
        *sorted((ROOT / "models").rglob("*.md")),
        ROOT / "loadtests" / "README.md",
        ROOT / "tests" / "behaviours" / "README.md",
    ],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_every_relative_link_resolves(path: Path) -> None:
    text = re.sub(r"^```.*?^```|`[^`\n]+`", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("https://", "http://")):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / unquote(target)).resolve() if target else path
        assert file.exists(), link
        assert file.is_relative_to(ROOT), link
        if anchor:
            assert anchor in anchors(file.read_text()), link


def test_every_page_that_is_named_outside_the_docs_exists() -> None:
    files = [*SOURCES, *(ROOT / "deploy").rglob("*.yaml")]
    files += [ROOT / "Makefile", ROOT / "Dockerfile", ROOT / ".ci" / "run"]
    named = {
        (file, name)
        for file in files
        for name in re.findall(r"\bdocs/[\w/-]+\.md", file.read_text())
    }
    assert len({name for _, name in named}) > 5
    assert {(str(f), name) for f, name in named if not (ROOT / name).is_file()} == set()


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, todo = set(), [ROOT / "README.md"]
    while todo:
        path = todo.pop()
        if path in reached or path.suffix != ".md":
            continue
        reached.add(path)
        for link in re.findall(r"\]\(([^)#\s]+)", path.read_text()):
            if "://" not in link:
                todo.append((path.parent / link).resolve())
    assert set(PAGES) <= reached


# --- what the pages show is true ---


def test_the_settings_in_the_readme_are_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        for name in re.findall(r"\$\{(\w+)\}", block):
            monkeypatch.setenv(name, f"unused {name}")
        config.parse(block, "README.md")
        assert yaml.safe_load(block)["endpoints"]


@pytest.mark.parametrize(
    "at", range(len(re.findall(r"^```(?:python|bash)\n", README, re.MULTILINE)))
)
def test_the_calls_in_the_readme_work(at: int, gateway: LiveGateway) -> None:
    blocks = re.findall(r"^```(python|bash)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    language, block = blocks[at]
    if language == "bash" and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    here = block.replace("http://127.0.0.1:8080", gateway.http_url)
    here = here.replace("127.0.0.1:8080", gateway.http_url.removeprefix("http://"))
    here = here.replace("127.0.0.1:8081", gateway.grpc_target)
    program = [sys.executable, "-c"] if language == "python" else ["bash", "-ec"]
    ended = subprocess.run(
        [*program, here], capture_output=True, text=True, timeout=60, check=False,
        env={k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip()
    if language == "bash":
        assert "x-spillway-sensitivity: restricted" in ended.stdout
        assert json.loads(ended.stdout.splitlines()[-1].partition("}{")[2].join(("{", "")))


def test_the_picture_reads_on_any_ground() -> None:
    svg = (DOCS / "overview.svg").read_text()
    assert "docs/overview.svg" in README
    assert '<rect x="1" y="1" width="958" height="418" rx="12" fill="#ffffff"' in svg
    assert not re.search(r"(?:href|src)=|url\((?!#)", svg)
