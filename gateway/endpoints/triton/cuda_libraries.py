"""CUDA's libraries that pip packages brought: their folders, and what ONNX Runtime lacks of them.

The dynamic loader does not look into site-packages. The embedded Triton and its stubs get the
folders by LD_LIBRARY_PATH (`installation`); a process that runs already loads the libraries by
their paths (`preload`), and a provider then takes them by their names. Run as a program this module
prints a `Report` on the environment that it was started with: `spillway doctor` runs it in the one
that the stubs have. It imports the standard library alone, so that it runs by its path.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import importlib
import json
import mmap
import os
import struct
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CUDA, TENSORRT = "CUDAExecutionProvider", "TensorrtExecutionProvider"
DEVICE = Path("/dev/nvidiactl")
_PATTERNS = ("nvidia/*/lib", "tensorrt_libs", "tensorrt_rtx_libs")
_FILES = {
    CUDA: "libonnxruntime_providers_cuda.so",
    TENSORRT: "libonnxruntime_providers_tensorrt.so",
}
_PACKAGES = {
    "libcudart": "nvidia-cuda-runtime",
    "libcublas": "nvidia-cublas",
    "libcublasLt": "nvidia-cublas",
    "libcufft": "nvidia-cufft",
    "libcurand": "nvidia-curand",
    "libnvrtc": "nvidia-cuda-nvrtc",
}  # as CUDA 13 calls them; before it with -cu12
_ALWAYS_SUFFIXED = {
    "libcudnn": "nvidia-cudnn",
    "libnvinfer": "tensorrt",
    "libnvonnxparser": "tensorrt",
}
_UNSUFFIXED_FROM = 13
_PROBE_S = 60.0
# A graph of one Identity node, in ONNX: what a provider is tried with.
_IDENTITY = base64.b64decode(
    "CAg6NwoQCgFhEgFiIghJZGVudGl0eRIBaVoPCgFhEgoKCAgBEgQKAggBYg8KAWISCgoICAESBAoCCAFCBAoAEBE="
)


@dataclass(frozen=True, slots=True)
class Library:
    """A library of NVIDIA's that a provider uses. The loader reaches it at `path`."""

    name: str  # its soname
    provider: str
    required: bool  # the provider does not load without it; others only some graphs need
    path: str | None
    package: str | None  # of pip; None: the driver brings it


@dataclass(frozen=True, slots=True)
class Report:
    """ONNX Runtime in one environment: its providers, which load, and what each of them lacks."""

    version: str
    cuda: str  # that it was built with; empty: without
    providers: tuple[str, ...]
    loads: tuple[str, ...]
    failures: Mapping[str, str]  # by provider
    libraries: tuple[Library, ...]

    @classmethod
    def from_json(cls, text: str) -> Report:
        fields: dict[str, Any] = json.loads(text)
        libraries = tuple(Library(**one) for one in fields["libraries"])
        lists = {name: tuple(fields[name]) for name in ("providers", "loads")}
        return cls(**(fields | lists | {"libraries": libraries}))

    def missing(self, provider: str) -> tuple[Library, ...]:
        return tuple(x for x in self.libraries if x.provider == provider and x.path is None)

    def cause(self, provider: str) -> str:
        """Why a provider does not load."""
        names = [x.name for x in self.missing(provider) if x.required]
        if DEVICE.exists() and names:
            return f"without {', '.join(names)}"
        return self.failures.get(provider, "this ONNX Runtime is built without it")


class NoReport(Exception):
    """ONNX Runtime does not start there; the message says why."""


def folders(site_packages: Iterable[Path]) -> tuple[Path, ...]:
    """The folders of NVIDIA's packages that hold libraries; the first site-packages come first."""
    matches = (
        match
        for site in site_packages
        for pattern in _PATTERNS
        for match in sorted(site.glob(pattern))
    )
    return tuple(dict.fromkeys(at for at in matches if any(at.glob("lib*.so*"))))


def site_packages() -> tuple[Path, ...]:
    """Where this Python's packages lie, those of a parent environment included."""
    on_path = (Path(at) for at in sys.path if at.endswith("-packages"))
    own = (Path(sysconfig.get_path(key)) for key in ("purelib", "platlib"))
    return tuple(dict.fromkeys((*on_path, *own)))


def inherited() -> tuple[Path, ...]:
    """What the operator or the container put on the loader's path. An empty entry would be the
    current directory, whatever that is."""
    return tuple(Path(at) for at in os.environ.get("LD_LIBRARY_PATH", "").split(":") if at)


def needed(library: Path) -> tuple[str, ...]:
    """The sonames that a shared library names (DT_NEEDED of ELF, 64 bits, little endian)."""
    with (
        library.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held,
    ):
        segments = tuple(_segments(held))
        dynamic = next(s for s in segments if s.kind == _PT_DYNAMIC)
        entries = [
            struct.unpack_from("<QQ", held, at)
            for at in range(dynamic.offset, dynamic.offset + dynamic.size, 16)
        ]
        strings_at = next(value for tag, value in entries if tag == _DT_STRTAB)
        base = next(
            s.offset + strings_at - s.address
            for s in segments
            if s.kind == _PT_LOAD and s.address <= strings_at < s.address + s.size
        )
        names = (base + value for tag, value in entries if tag == _DT_NEEDED)
        return tuple(bytes(held[at : held.find(b"\0", at)]).decode() for at in names)


_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NEEDED, _DT_STRTAB = 1, 5


@dataclass(frozen=True, slots=True)
class _Segment:
    kind: int
    offset: int
    address: int
    size: int


def _segments(held: Any) -> Iterator[_Segment]:
    (table_at,) = struct.unpack_from("<Q", held, 32)
    entry_bytes, count = struct.unpack_from("<HH", held, 54)
    for at in range(table_at, table_at + entry_bytes * count, entry_bytes):
        kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", held, at)
        yield _Segment(kind, offset, address, size)


def pip_package(soname: str, cuda_major: int) -> str | None:
    """The pip package that brings a library of NVIDIA's, of the right release."""
    stem, _, version = soname.partition(".so")
    if package := _PACKAGES.get(stem):
        return package if cuda_major >= _UNSUFFIXED_FROM else f"{package}-cu{cuda_major}"
    if package := _ALWAYS_SUFFIXED.get(stem.partition("_")[0]):
        named = f"{package}-cu{cuda_major}"
        major = version.strip(".").partition(".")[0]
        return f"{named}<{int(major) + 1}" if package == "tensorrt" and major else named
    return None


def preload(provider: str = CUDA) -> None:
    """Loads what a provider needs into this process: pip packages' libraries by their paths. What
    is nowhere stays away, and the provider's own message names it."""
    ort: Any = importlib.import_module("onnxruntime")
    if hasattr(ort, "preload_dlls"):
        with contextlib.redirect_stdout(sys.stderr):  # it prints what it misses
            ort.preload_dlls()
    places = folders(site_packages())
    for name, _ in _nvidia_libraries(ort, provider):
        paths = (at / name for at in places)
        by_path = next((path for path in paths if path.exists()), None)
        with contextlib.suppress(OSError):
            ctypes.CDLL(str(by_path or name), mode=ctypes.RTLD_GLOBAL)


def probe(environment: Mapping[str, str]) -> Report:
    """Isolated as the stubs' Python is, which ignores PYTHONPATH. Raises NoReport."""
    try:
        ended = subprocess.run(
            [sys.executable, "-I", __file__],
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=_PROBE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NoReport(f"it did not start within {_PROBE_S:g} s") from None
    if ended.returncode:
        lines = ended.stderr.strip().splitlines()
        raise NoReport(lines[-1] if lines else f"it ended with status {ended.returncode}")
    return Report.from_json(ended.stdout.strip().splitlines()[-1])


def _nvidia_libraries(ort: Any, provider: str) -> Sequence[tuple[str, bool]]:
    """NVIDIA's libraries by their sonames, and whether the provider loads only with them."""
    file = Path(ort.__file__).parent / "capi" / _FILES[provider]
    if not file.exists():
        return ()
    required = [name for name in needed(file) if _is_nvidia(name)]
    later: list[str] = []
    if provider == CUDA:
        # It opens these by itself once a graph needs them; the wheel lists them for preload_dlls.
        listed = getattr(ort, "_get_nvidia_dll_paths", lambda *_: [("libcudnn.so.9",)])
        later = [path[-1] for path in listed(False, True, True) if path[-1] not in required]
    return [*((name, True) for name in required), *((name, False) for name in later)]


def _is_nvidia(soname: str) -> bool:
    return soname.startswith(("libcu", "libnv"))


def _report() -> Report:
    ort: Any = importlib.import_module("onnxruntime")
    about: Any = importlib.import_module("onnxruntime.capi.build_and_package_info")
    cuda = str(getattr(about, "cuda_version", ""))
    major = int(cuda.partition(".")[0]) if cuda else 0
    providers = tuple(ort.get_available_providers())
    libraries = tuple(
        Library(name, provider, required, _reached(name), pip_package(name, major))
        for provider in _FILES
        if provider in providers
        for name, required in _nvidia_libraries(ort, provider)
    )
    failures = {p: why for p in providers if (why := _failure(ort, p)) is not None}
    loads = tuple(p for p in providers if p not in failures)
    return Report(ort.__version__, cuda, providers, loads, failures, libraries)


def _reached(name: str) -> str | None:
    """Where the loader finds a library: the kernel lists what it has mapped."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return None
    stem = name.partition(".so")[0] + ".so"  # the file that it links to has a longer name
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")[2]
        if Path(path).name.startswith(stem):
            return f"/{path}"
    return name


def _failure(ort: Any, provider: str) -> str | None:
    """Why a session does not get a provider: ONNX Runtime falls back to the CPU in silence."""
    if provider in _FILES and not DEVICE.exists():
        return f"no GPU device here ({DEVICE})"  # trying takes seconds
    options = ort.SessionOptions()
    options.log_severity_level = 3
    with tempfile.TemporaryFile() as written:
        stderr = os.dup(2)
        os.dup2(written.fileno(), 2)
        try:
            session = ort.InferenceSession(_IDENTITY, options, providers=[provider])
            why = None if session.get_providers()[0] == provider else "a session does not get it"
        except Exception as exc:  # noqa: BLE001 - the pybind errors have no base
            why = str(exc).strip().partition("\n")[0]
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
        written.seek(0)
        lines = written.read().decode("utf-8", "replace").strip().splitlines()
    return None if why is None else (lines[0] if lines else why)[:300]


if __name__ == "__main__":
    print(json.dumps(asdict(_report())))
