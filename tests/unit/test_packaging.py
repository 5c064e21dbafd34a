"""What is shipped: the wheel, the locked sets, the container images, and that they fit together."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gateway import __version__, config
from gateway.cli.running import gateway_url

ROOT = Path(__file__).parent.parent.parent
PROJECT: Mapping[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = {path.stem: path.read_text() for path in sorted((ROOT / "requirements").glob("*.txt"))}
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE: Mapping[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
_ENTRY = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


def locked(name: str) -> dict[str, set[str]]:
    """Package -> its versions in one locked set; several where they differ by Python."""
    found: dict[str, set[str]] = {}
    for package, version, _ in _ENTRY.findall(LOCKS[name]):
        found.setdefault(canonicalize_name(package), set()).add(version)
    return found


def required(specifiers: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(s).name) for s in specifiers}


# --- the version ---


def test_the_version_stands_in_one_place() -> None:
    assert "version" not in PROJECT["project"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "gateway.__version__"}
    for name in ("pyproject.toml", "Dockerfile", "deploy/compose.yaml", "deploy/triton.Dockerfile"):
        assert __version__ not in (ROOT / name).read_text(), name
    quoted = re.compile(rf"[\"']{re.escape(__version__)}[\"']")
    holders = [p for p in (ROOT / "gateway").rglob("*.py") if quoted.search(p.read_text())]
    assert holders == [ROOT / "gateway" / "__init__.py"]


def test_the_changelog_tells_of_this_version() -> None:
    assert f"\n## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


# --- the wheel ---


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Built from what the Dockerfile copies and nothing else, without a network."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        (source / name).write_bytes((ROOT / name).read_bytes())
    for path in (ROOT / "gateway").rglob("*"):
        if path.is_file() and not {"__pycache__", "node_modules"} & set(path.parts):
            copy = source / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index",
         "--quiet", "--disable-pip-version-check", "--wheel-dir", str(out), str(source)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    (found,) = out.glob("*.whl")
    return zipfile.ZipFile(found)


def test_the_wheel_carries_every_file_of_the_package(wheel: zipfile.ZipFile) -> None:
    here = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "gateway").rglob("*")
        if path.is_file() and not {"__pycache__", "web"} & set(path.parts)  # the page is built
    }
    assert {"gateway/py.typed", "gateway/default.yaml", "gateway/demo/demo.yaml"} <= here
    assert here == {n for n in wheel.namelist() if n.startswith("gateway/")}


def test_the_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    info = f"spillway_gateway-{__version__}.dist-info"
    metadata = wheel.read(f"{info}/METADATA").decode()
    assert f"\nVersion: {__version__}\n" in metadata
    assert "\nRequires-Python: <3.14,>=3.11\n" in metadata
    assert "# Spillway" in metadata
    entry_points = wheel.read(f"{info}/entry_points.txt").decode()
    assert "spillway = gateway.__main__:main" in entry_points
    assert any(name.startswith(info) and name.endswith("LICENSE") for name in wheel.namelist())


def test_a_base_installation_needs_no_index_of_a_vendor() -> None:
    base = required(PROJECT["project"]["dependencies"])
    extras = PROJECT["project"]["optional-dependencies"]
    assert {"starlette", "httpx", "tritonclient", "onnxruntime-gpu", "presidio-analyzer"} <= base
    assert "uvloop" in base
    assert "tensorrt" not in base
    assert required(extras["tensorrt"]) == {"tensorrt"}


def test_uvicorn_is_needed_by_the_demo_alone() -> None:
    importing = {
        path.relative_to(ROOT).parts[1]
        for path in (ROOT / "gateway").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Import) and any(n.name == "uvicorn" for n in node.names)
    }
    assert importing == {"demo"}
    assert "uvicorn" in required(PROJECT["project"]["optional-dependencies"]["demo"])
    assert "uvicorn" not in required(PROJECT["project"]["dependencies"])
    assert "uvicorn" not in locked("gateway")


def test_the_embedded_triton_is_pinned_exactly() -> None:
    embedded = PROJECT["project"]["optional-dependencies"]["embedded"]
    (pytriton,) = (Requirement(s) for s in embedded if s.startswith("nvidia-pytriton"))
    (pin,) = pytriton.specifier
    assert pin.operator == "=="
    assert locked("run")["nvidia-pytriton"] == {pin.version}


# --- the locked sets ---


def test_there_are_the_locked_sets_that_the_lock_script_makes() -> None:
    script = (ROOT / "requirements" / "lock").read_text()
    assert set(re.findall(r"^lock requirements/(\w+)\.txt", script, re.MULTILINE)) == set(LOCKS)


@pytest.mark.parametrize("extra", ["otel", "postgres"])
def test_the_image_has_the_packages_that_its_settings_offer(extra: str) -> None:
    names = required(PROJECT["project"]["optional-dependencies"][extra])
    assert names
    assert names <= set(locked("gateway"))


@pytest.mark.parametrize("name", sorted(LOCKS))
def test_a_locked_set_names_no_host(name: str) -> None:
    assert not re.search(
        r"://|@ |--index|--extra-index|--find-links|--trusted-host|-i ", LOCKS[name]
    )


@pytest.mark.parametrize("name", sorted(LOCKS))
def test_every_package_of_a_locked_set_has_hashes(name: str) -> None:
    entries = _ENTRY.findall(LOCKS[name])
    assert len(entries) == sum(1 for line in LOCKS[name].splitlines() if line[:1].isalnum())
    bare = [p for p, _, rest in entries if not re.search(r"--hash=sha256:[0-9a-f]{64}\b", rest)]
    assert bare == []


@pytest.mark.parametrize("name", sorted(LOCKS))
def test_no_locked_set_has_what_cannot_be_had_everywhere(name: str) -> None:
    barred = {"tensorrt", "onnxruntime"} | ({"torch"} if name != "train" else set())
    assert not barred & locked(name).keys()


@pytest.mark.parametrize("name", ["train", "docs"])
def test_a_set_of_its_own_has_the_tested_versions_of_what_it_shares(name: str) -> None:
    tested, own = locked("dev"), locked(name)
    assert {p: v for p, v in own.items() if p in tested and tested[p] != v} == {}
    assert required(PROJECT["dependency-groups"][name]) <= own.keys()


@pytest.mark.parametrize(
    ("part", "whole"), [("run", "dev"), ("gateway", "dev"), ("models", "run"), ("compile", "dev")]
)
def test_what_is_shipped_is_what_was_tested(part: str, whole: str) -> None:
    tested = locked(whole)
    assert {p: v for p, v in locked(part).items() if tested.get(p) != v} == {}


def test_the_locked_sets_hold_what_the_project_requires() -> None:
    project, groups = PROJECT["project"], PROJECT["dependency-groups"]
    base = required(project["dependencies"])
    demo = base | required(project["optional-dependencies"]["demo"]) | required(groups["build"])
    tests = required(groups["test"]) | required(groups["check"])
    assert base | required(groups["build"]) <= locked("gateway").keys()
    assert demo | {"nvidia-pytriton"} <= locked("run").keys()
    assert demo | tests <= locked("dev").keys()
    assert required(groups["models"]) <= locked("models").keys()
    assert required(groups["compile"]) <= locked("compile").keys()
    assert "nvidia-pytriton" not in locked("gateway")


def test_locked_versions_satisfy_the_project() -> None:
    versions = locked("dev")
    for specifier in PROJECT["project"]["dependencies"]:
        requirement = Requirement(specifier)
        for version in versions[canonicalize_name(requirement.name)]:
            assert requirement.specifier.contains(version), specifier


def test_this_environment_has_the_locked_versions() -> None:
    """Otherwise the suite would prove nothing about what is shipped."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    installed: dict[str, str] = {
        canonicalize_name(name): version
        for name, _, version in (line.partition("==") for line in listed.splitlines())
    }
    shipped = locked("gateway")
    wrong = {p: installed[p] for p in shipped if p in installed and installed[p] not in shipped[p]}
    assert wrong == {}


# --- the images ---


def copied(dockerfile: str) -> list[str]:
    """The sources of every COPY out of the build context."""
    found = []
    for line in re.findall(r"^COPY (?!--from)(.+)$", dockerfile, re.MULTILINE):
        found += [w for w in line.split()[:-1] if not w.startswith("--")]
    return found


def allowed(path: str) -> bool:
    """Whether .dockerignore lets a path of the context through: the last rule that fits wins."""
    lets = True
    for rule in (ROOT / ".dockerignore").read_text().splitlines():
        if not rule or rule.startswith("#"):
            continue
        body = rule.removeprefix("!")
        if body == "*" or path == body or path.startswith(f"{body}/"):
            lets = rule.startswith("!")
    return lets


@pytest.mark.parametrize("name", ["Dockerfile", "deploy/triton.Dockerfile"])
def test_an_image_copies_what_is_there(name: str) -> None:
    sources = copied((ROOT / name).read_text())
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert allowed(source), f"{source} is kept out by .dockerignore"


def test_the_build_context_holds_neither_secrets_nor_history() -> None:
    for kept_out in (".git", ".venv", "var", "tests", "spillway.yaml", ".env"):
        assert not allowed(kept_out), kept_out


def test_the_image_installs_the_locked_gateway_and_only_that() -> None:
    installs = re.findall(r"pip install (.+)$", DOCKERFILE, re.MULTILINE)
    assert installs[0] == "--require-hashes --requirement requirements/gateway.txt"
    assert installs[1].startswith("--require-hashes --target /opt/compiler ")  # stays behind
    assert installs[2].startswith("--no-deps --no-build-isolation .")
    assert len(installs) == 3


def test_the_image_does_not_run_as_root() -> None:
    user = re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE)[-1]
    assert user != "root"
    assert not user.startswith("0")


def test_the_images_commands_exist() -> None:
    from gateway.__main__ import main  # only here: the command line is not what the rest is about

    for line in re.findall(r"^\s*(?:CMD|ENTRYPOINT) (\[.+\])$", DOCKERFILE, re.MULTILINE):
        words = yaml.safe_load(line)
        command = words[1:] if words[0] == "spillway" else words
        if command:
            with pytest.raises(SystemExit) as ended:
                main([command[0], "--help"])
            assert ended.value.code == 0


def test_the_images_ports_are_the_settings_own() -> None:
    listen = config.ListenSettings()
    (exposed,) = re.findall(r"^EXPOSE (.+)$", DOCKERFILE, re.MULTILINE)
    assert exposed.split() == [str(listen.http_port), str(listen.grpc_port)]
    own = f"http://127.0.0.1:{listen.http_port}"
    assert own == gateway_url.DEFAULT_URL


def test_the_image_serves_a_python_that_is_tested() -> None:
    bases = re.findall(r"^FROM python:(\d+\.\d+)-slim\S*", DOCKERFILE, re.MULTILINE)
    assert len(bases) == 2
    assert set(bases) <= {"3.11", "3.12"}


# --- the compose file ---


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> config.Settings:
    monkeypatch.setenv("SPILLWAY_KEY", "unused")
    monkeypatch.setenv("CLOUD_API_KEY", "unused")
    return config.load(ROOT / "deploy" / "spillway.yaml")


def test_compose_mounts_the_settings_where_the_image_reads_them(shipped: config.Settings) -> None:
    gateway = COMPOSE["services"]["gateway"]
    mounts = [volume.split(":") for volume in gateway["volumes"]]
    (settings,) = [m for m in mounts if m[0].endswith("spillway.yaml")]
    assert (ROOT / "deploy" / settings[0]).exists()
    assert f'"--config", "{settings[1]}"' in DOCKERFILE
    records = {m[0]: m[1] for m in mounts}["records"]
    assert f"VOLUME {records}" in DOCKERFILE
    assert shipped.audit.directory.parent == Path(records)


def test_compose_publishes_the_ports_that_the_gateway_listens_on(shipped: config.Settings) -> None:
    published = [port.split(":")[1] for port in COMPOSE["services"]["gateway"]["ports"]]
    assert published == [str(shipped.listen.http_port), str(shipped.listen.grpc_port)]
    assert shipped.listen.host == "0.0.0.0"
    assert shipped.keys


def test_compose_gives_the_gateway_every_secret_that_its_settings_name() -> None:
    named = set(re.findall(r"\$\{(\w+)\}", (ROOT / "deploy" / "spillway.yaml").read_text()))
    assert named == set(COMPOSE["services"]["gateway"]["environment"])


def test_compose_builds_what_is_here() -> None:
    built = {name: s for name, s in COMPOSE["services"].items() if "build" in s}
    assert set(built) == {"gateway", "triton"}
    for name, service in built.items():
        build = service["build"]
        context = (ROOT / "deploy" / build["context"]).resolve()
        assert context == ROOT, name
        assert (context / build["dockerfile"]).exists(), name


def test_compose_starts_triton_on_the_addresses_that_the_settings_name(
    shipped: config.Settings,
) -> None:
    command = COMPOSE["services"]["triton"]["command"]
    options = dict(word.split("=", 1) for word in command if word.startswith("--") and "=" in word)
    endpoint = shipped.endpoints["triton"]
    assert endpoint.url == f"http://triton:{options['--http-port']}"
    assert endpoint.grpc == f"triton:{options['--grpc-port']}"
    assert options["--model-control-mode"] == "none"
    models = [v.split(":") for v in COMPOSE["services"]["triton"]["volumes"]]
    assert [(ROOT / "deploy" / m[0]).resolve() for m in models] == [ROOT / "models"]
    assert models[0][1] == options["--model-repository"]


def test_compose_serves_the_models_on_all_graphics_cards(shipped: config.Settings) -> None:
    triton = COMPOSE["services"]["triton"]
    words = dict(word.split("=", 1) for word in triton["command"] if "=" in word)
    for name, model in shipped.models.items():
        for served in model.served_by:
            directory = ROOT / "models" / (served.model or name)
            config_of_target = directory / "configs" / f"{words['--model-config-name']}.pbtxt"
            if served.endpoint != "triton" or not (directory / "configs").exists():
                continue
            (groups,) = [
                line
                for line in config_of_target.read_text().splitlines()
                if "instance_group" in line
            ]
            assert "KIND_GPU" in groups, name
            assert "gpus" not in groups, name  # those that are there
    (device,) = triton["deploy"]["resources"]["reservations"]["devices"]
    assert device["count"] == "all"


def test_the_settings_that_ship_serve_models_that_ship(shipped: config.Settings) -> None:
    for name, model in shipped.models.items():
        for served in model.served_by:
            if served.endpoint == "triton":
                directory = ROOT / "models" / (served.model or name)
                assert (directory / "config.pbtxt").exists(), name


def test_triton_has_no_way_out(shipped: config.Settings) -> None:
    triton = COMPOSE["services"]["triton"]
    assert [n for n in triton["networks"] if not COMPOSE["networks"][n].get("internal")] == []
    assert "ports" not in triton
    (device,) = triton["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]


def test_compose_waits_longer_than_the_gateway_drains(shipped: config.Settings) -> None:
    grace_s = float(COMPOSE["services"]["gateway"]["stop_grace_period"].removesuffix("s"))
    assert grace_s >= shipped.limits.drain_s + 10
