"""What goes into a bundle: each piece is a folder that becomes one packed archive."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import importlib.metadata
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadtests.gpu.bundle import fatbin, rounding

ROOT = Path(__file__).resolve().parents[3]
_LOCK = ROOT / "requirements/dev.txt"
_PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in (39, 35, 34, 31, 28, 27, 24, 17, 12, 5)),
    *("manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"),
)
_CODE = (
    "gateway", "loadtests", "models", "pyproject.toml",
    "tests/__init__.py", "tests/live.py", "tests/gpu",
)  # fmt: skip
_READING = "gateway/classify/names/weights/second.onnx"  # for the gateway's own reading alone
_LEFT_OUT = ("*/tests/*", "*/test/*", "*.pyi", "*/include/*", "*.dist-info/RECORD")
_FOR_CURVES = ("pydantic", "pydantic-core", "annotated-types", "typing-inspection")
_FOR_SERVING = (
    "starlette", "httptools", "tritonclient", "grpcio-health-checking",
    "grpcio-reflection", "python-rapidjson", "joserfc", "cryptography", "cffi", "pycparser",
    "presidio-analyzer", "presidio-anonymizer", "hyperscan", "phonenumbers", "tldextract",
    "requests-file", "python-stdnum", "orjson", "numpy",
)  # fmt: skip
_TRITON = ("pytriton/*.py", "pytriton/tritonserver/b*", "nvidia_pytriton*")


class CannotBundle(Exception):
    """The message says what is missing."""


@dataclass(frozen=True, slots=True)
class Target:
    """The machine that the bundle is for."""

    python: str  # 3.12
    architecture: int  # 90 for H100 and H200
    levels: int  # of minilm's weights
    models: tuple[str, ...]

    @property
    def tag(self) -> str:
        return self.python.replace(".", "")


Content = Callable[[], bytes]
Fill = Callable[[Path, Target, Path], None]  # the folder, the target, where wheels are kept


def code(into: Path, target: Target, wheels: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *_CODE],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, listed):
        if name != _READING and (ROOT / name).is_file():
            _copy(ROOT / name, into / "code" / name)
    if "names" in target.models:
        _copy(_built("names/1/model.onnx"), into / "code/models/names/1/model.onnx")
    if "minilm" in target.models:
        _copy(_built("minilm/1/tokenizer.json"), into / "code/models/minilm/1/tokenizer.json")
        rounding.round_off(_built("minilm/1/model.onnx"), into / "rounded/minilm", target.levels)
    _install(into, target, wheels, _FOR_CURVES)


def cuda(into: Path, target: Target, wheels: Path) -> None:
    _install(into, target, wheels, ("onnxruntime-gpu",), without=("*/libonnxruntime.so*",))
    library = into / "site/onnxruntime/capi/libonnxruntime_providers_cuda.so"
    try:
        fatbin.thin(library, library, target.architecture)
    except fatbin.NoKernels as exc:
        raise CannotBundle(str(exc)) from None


def serving(into: Path, target: Target, wheels: Path) -> None:
    _copy(ROOT / _READING, into / "code" / _READING)
    _install(into, target, wheels, _FOR_SERVING)
    stub = f"pytriton/tritonserver/python_backend_stubs/{target.python}/*"
    _install(
        into, target, wheels, ("nvidia-pytriton",),
        only=(*_TRITON, stub), without=("*/libpython3-*", "pytriton/tritonserver/backends/py*/*.h"),
    )  # fmt: skip
    _python(into / "python", target)


def rtx(into: Path, target: Target, wheels: Path) -> None:
    """Two of its packages are not on the index as wheels: the pure one is taken from here."""
    libraries = ("tensorrt-rtx-cu13-libs", "tensorrt-rtx-cu13-bindings")
    _install(into, target, wheels, libraries)
    for pattern in ("tensorrt_rtx", "tensorrt_rtx-*.dist-info"):
        for site in (Path(at) for at in sys.path if at.endswith("-packages")):
            for package in site.glob(pattern):
                shutil.copytree(package, into / "site" / package.name, dirs_exist_ok=True)
    if not (into / "site/tensorrt_rtx").exists():
        raise CannotBundle("install 'spillway-gateway[tensorrt-rtx]' here first")


PIECES: Mapping[str, Fill] = {"code": code, "cuda": cuda, "serving": serving, "rtx": rtx}


def _built(name: str) -> Path:
    path = ROOT / "models" / name
    if not path.exists():
        raise CannotBundle(f"{path} is not there: python models/build.py")
    return path


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def _install(
    into: Path,
    target: Target,
    wheels: Path,
    packages: Sequence[str],
    *,
    only: Iterable[str] = ("*",),
    without: Iterable[str] = (),
) -> None:
    """The locked versions for the target's Python, unpacked."""
    for package in packages:
        for name, content, mode in _content(package, target, wheels):
            if _matches(name, (*_LEFT_OUT, *without)) or not _matches(name, only):
                continue
            path = into / "site" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content())
            path.chmod(mode & 0o777 | 0o644)


def _content(package: str, target: Target, wheels: Path) -> Iterator[tuple[str, Content, int]]:
    """The files of a package: as they are installed here, where this is the target's Python."""
    version = _pinned(package)
    if target.python == f"{sys.version_info.major}.{sys.version_info.minor}":
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed = importlib.metadata.distribution(package)
            if installed.version == version:
                for file in installed.files or ():
                    path = Path(str(file.locate()))
                    if ".." not in file.parts and "__pycache__" not in file.parts:
                        yield str(file), path.read_bytes, path.stat().st_mode
                return
    with zipfile.ZipFile(_wheel(package, version, target, wheels)) as archive:
        for entry in archive.infolist():
            if not entry.is_dir():
                content = functools.partial(archive.read, entry)
                yield _installed_as(entry.filename), content, entry.external_attr >> 16


def _installed_as(name: str) -> str:
    """As an installer would place it: X.data/purelib/ and platlib/ are the site itself."""
    return re.sub(r"^[^/]+\.data/(pure|plat)lib/", "", name)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _pinned(package: str) -> str:
    pinned = re.search(rf"^{re.escape(package)}==(\S+)", _LOCK.read_text(), re.MULTILINE)
    if pinned is None:
        raise CannotBundle(f"{_LOCK} pins no {package}")
    return pinned[1]


def _wheel(package: str, version: str, target: Target, wheels: Path) -> Path:
    stem = f"{package.replace('-', '_')}-{version}"
    fits = (f"cp{target.tag}-*", "*abi3*", "py3-*", "py2.py3-*", f"cp{target.tag}-none-*")

    def local() -> Path | None:
        named = [w for fit in fits for w in wheels.glob(f"{stem}-{fit}.whl")]
        return named[0] if named else None

    if (present := local()) is not None:
        return present
    wheels.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(wheels)]
    command += ["--python-version", target.python, "--implementation", "cp"]
    for platform in _PLATFORMS:
        command += ["--platform", platform]
    ended = subprocess.run(
        [*command, f"{package}=={version}"], capture_output=True, text=True, check=False
    )
    if ended.returncode or (loaded := local()) is None:
        raise CannotBundle(f"pip has no wheel of {package} {version}: {ended.stderr.strip()}")
    return loaded


def _python(into: Path, target: Target) -> None:
    """The shared library and the modules of a Python of the target's version, where one is here."""
    for python in (sys.executable, f"python{target.python}"):
        asked = "import sys, sysconfig as s; print(sys.version_info[:2], s.get_config_var('LIBDIR')"
        asked += ", s.get_path('platstdlib'), sep='|')"
        try:
            said = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        version, libraries, modules = said.stdout.strip().split("|")
        name = f"libpython{target.python}.so.1.0"
        if version == f"({target.python.replace('.', ', ')})" and Path(libraries, name).exists():
            _copy(Path(libraries, name), into / name)
            for module in Path(modules, "lib-dynload").glob("*.so"):
                if "test" not in module.name:
                    _copy(module, into / "modules" / module.name)
            for file in (into / name, *(into / "modules").iterdir()):
                subprocess.run(["strip", str(file)], capture_output=True, check=False)
            return
