"""`spillway doctor`: what this machine has for on-prem serving, and what to do about the rest."""

from __future__ import annotations

import argparse
import base64
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from gateway import __version__
from gateway.cli import console
from gateway.core import compiled
from gateway.endpoints.triton import repository

_BEST_FIRST = ("TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider")
# A graph of one Identity node, in ONNX: what a provider is tried with.
_IDENTITY = base64.b64decode(
    "CAg6NwoQCgFhEgFiIghJZGVudGl0eRIBaVoPCgFhEgoKCAgBEgQKAggBYg8KAWISCgoICAESBAoCCAFCBAoAEBE="
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "doctor",
        help="tell what this machine has",
        description="GPU, driver, ONNX Runtime, TensorRT, Triton and models: what is there, what "
        "is missing, and what to do about it. Nothing is started or changed.",
    )
    parser.add_argument("--json", action="store_true", help="the findings as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    facts = examine()
    if args.json:
        console.put_json(facts)
        return 0
    for name, value in facts.items():
        good = value.get("ok", True)
        console.err.print(f"[{'green' if good else 'yellow'}]{'✓' if good else '!'}[/] ", end="")
        console.err.print(f"{name}: {value['told']}", markup=False)
    return 0


def examine() -> dict[str, dict[str, Any]]:
    return {
        "spillway": {
            "told": f"{__version__}{compiled.version_suffix()} "
            f"on Python {platform.python_version()}",
            "compiled": compiled.is_compiled(),
        },
        "machine": {"told": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}"},
        "gpu": _gpu(),
        "onnxruntime": _onnxruntime(),
        "tensorrt": _tensorrt(),
        "triton": _triton(),
        "models": _models(),
    }


def _gpu() -> dict[str, Any]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return {"ok": False, "gpus": [], "told": "none found (nvidia-smi is not installed)"}
    query = [tool, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        out = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError) as exc:
        return {"ok": False, "gpus": [], "told": f"nvidia-smi fails: {type(exc).__name__}"}
    gpus = [line.strip() for line in out.splitlines() if line.strip()]
    return {"ok": bool(gpus), "gpus": gpus, "told": "; ".join(gpus) or "none"}


def _onnxruntime() -> dict[str, Any]:
    import onnxruntime  # slow to import, and only looked at here

    loads = [name for name in onnxruntime.get_available_providers() if _loads(name)]
    both = [n for n in ("onnxruntime", "onnxruntime-gpu") if _version(n)]
    providers = list(onnxruntime.get_available_providers())
    words = f"{onnxruntime.__version__}, providers: {', '.join(providers)}"
    ok = len(both) == 1
    if not ok:
        words += " - onnxruntime and onnxruntime-gpu overwrite each other: uninstall one"
    best = next((name for name in _BEST_FIRST if name in loads), "none of them")
    words += f"; models run on {best}"
    missing = [name for name in providers if name in _BEST_FIRST and name not in loads]
    if missing and Path("/dev/nvidiactl").exists():
        ok = False
        words += (
            f" - {' and '.join(missing)} cannot be loaded: a library is missing, see NVIDIA's list"
        )
    elif missing:
        words += " (this machine has no GPU device)"
    return {
        "ok": ok,
        "version": onnxruntime.__version__,
        "providers": providers,
        "loads": loads,
        "told": words,
    }


def _loads(provider: str) -> bool:
    """Whether a session really gets it: ONNX Runtime falls back to the CPU in silence."""
    import onnxruntime  # slow to import, and only looked at here

    if provider.startswith(("CUDA", "Tensorrt")) and not Path("/dev/nvidiactl").exists():
        return False  # trying takes seconds, and writes errors of its own
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(_IDENTITY, options, providers=[provider])
    except Exception:  # noqa: BLE001 - the pybind errors have no base; it does not load
        return False
    return bool(session.get_providers()[0] == provider)


def _tensorrt() -> dict[str, Any]:
    for name in ("tensorrt", "tensorrt_rtx"):
        if importlib.util.find_spec(name) is not None:
            return {"package": name, "told": f"{name} {_version(name) or ''}".strip()}
    return {"ok": False, "package": None, "told": "not installed (extra: tensorrt)"}


def _triton() -> dict[str, Any]:
    version = _version("nvidia-pytriton")
    if version is not None:
        return {"embedded": version, "told": f"embedded, from nvidia-pytriton {version}"}
    if sys.version_info >= (3, 13):
        return {"ok": False, "embedded": None, "told": "none: it needs Python 3.11 or 3.12"}
    words = "none; pip install 'spillway-gateway[embedded]', or name a server in the settings"
    return {"ok": False, "embedded": None, "told": words}


def _models() -> dict[str, Any]:
    root = Path("models")
    if not root.is_dir():
        return {"ok": False, "found": [], "told": "no ./models here"}
    models = sorted(p.parent.name for p in root.glob("*/config.pbtxt"))
    built = (root / "minilm" / "1" / "model.onnx").exists()
    words = f"{len(models)} in ./models" + ("" if built else "; not built: python models/build.py")
    hazards = [f"{h.model}: {h.text}" for h in repository.hazards(root)]
    return {
        "ok": built and not hazards,
        "found": models,
        "hazards": hazards,
        "told": "; ".join([words, *hazards]),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
