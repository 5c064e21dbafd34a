"""CUDA's libraries of pip packages: which folders, who gets them, and what the doctor says."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import onnxruntime
import pytest

from gateway.__main__ import main
from gateway.cli import doctor
from gateway.endpoints.triton import cuda_libraries
from gateway.endpoints.triton.cuda_libraries import CUDA, TENSORRT, Library, NoReport, Report
from gateway.endpoints.triton.installation import Installation, model_environment

_PATH = "import os; print(os.environ['LD_LIBRARY_PATH'])"


def site(at: Path, *files: str) -> Path:
    for name in files:
        (at / name).parent.mkdir(parents=True, exist_ok=True)
        (at / name).write_bytes(b"")
    return at


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """As pip lays CUDA 13, cuDNN and TensorRT for RTX out, and two packages without libraries."""
    return site(
        tmp_path / "site-packages",
        "nvidia/cu13/lib/libcudart.so.13",
        "nvidia/cudnn/lib/libcudnn.so.9",
        "nvidia/cublas/include/cublas.h",
        "nvidia/nvtx/lib/__init__.py",
        "tensorrt_rtx_libs/libtensorrt_rtx.so.1",
    )


def installation(home: Path) -> Installation:
    nothing = home / "nothing"
    return Installation(nothing, nothing, nothing, home / "nvidia_pytriton.libs", (home,))


def test_folders_are_those_with_libraries(packages: Path) -> None:
    assert cuda_libraries.folders([packages]) == (
        packages / "nvidia/cu13/lib",
        packages / "nvidia/cudnn/lib",
        packages / "tensorrt_rtx_libs",
    )


def test_the_first_site_packages_come_first(packages: Path, tmp_path: Path) -> None:
    other = site(tmp_path / "other", "nvidia/cu13/lib/libcudart.so.13")
    found = cuda_libraries.folders([other, packages, other])
    assert found[:2] == (other / "nvidia/cu13/lib", packages / "nvidia/cu13/lib")
    assert len(found) == len(set(found))


def test_the_embedded_triton_gets_them_and_the_operators_own(
    packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a real process, as the server and its stubs are started."""
    monkeypatch.setenv("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64::/opt/cuda/lib")
    command = [sys.executable, "-I", "-S", "-c", _PATH]
    environment = installation(packages).environment()
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    path = ended.stdout.strip().split(":")
    assert path[0] == str(packages / "nvidia_pytriton.libs")  # its own before all others
    assert path[-2:] == ["/usr/local/nvidia/lib64", "/opt/cuda/lib"]
    carried = [str(packages / at) for at in ("nvidia/cu13/lib", "nvidia/cudnn/lib")]
    assert [at for at in path if at in carried] == carried
    assert "" not in path  # that would be the current directory


def test_a_library_in_them_is_found_by_its_name_alone(packages: Path) -> None:
    """The loader takes it from there, in a process with that environment and in no other."""
    compiled = subprocess.run(
        ["cc", "-shared", "-o", str(packages / "nvidia/cu13/lib/libspillwaytest.so.1"), "-xc", "-"],
        input=b"int answer(void) { return 42; }",
        capture_output=True,
    )
    if compiled.returncode:
        pytest.skip("no C compiler here")
    code = "import ctypes; print(ctypes.CDLL('libspillwaytest.so.1').answer())"
    command = [sys.executable, "-c", code]
    environment = installation(packages).environment()
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.stdout.strip() == "42", ended.stderr
    without = {k: v for k, v in environment.items() if k != "LD_LIBRARY_PATH"}
    assert subprocess.run(command, env=without, capture_output=True).returncode


def test_what_a_library_needs_is_read_from_its_file() -> None:
    directory = Path(onnxruntime.__file__).parent / "capi"
    library = directory / "libonnxruntime_providers_cuda.so"
    if not library.exists():
        pytest.skip("this ONNX Runtime is built without CUDA")
    names = cuda_libraries.needed(library)
    listed = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True)
    for name in names:
        assert f"Shared library: [{name}]" in listed.stdout
    assert len(names) == listed.stdout.count("(NEEDED)") > 5


@pytest.mark.parametrize(
    ("soname", "major", "package"),
    [
        ("libcudart.so.13", 13, "nvidia-cuda-runtime"),
        ("libcudart.so.12", 12, "nvidia-cuda-runtime-cu12"),
        ("libcublasLt.so.13", 13, "nvidia-cublas"),
        ("libcudnn.so.9", 13, "nvidia-cudnn-cu13"),
        ("libcudnn_graph.so.9", 13, "nvidia-cudnn-cu13"),
        ("libnvinfer.so.10", 13, "tensorrt-cu13<11"),
        ("libcuda.so.1", 13, None),
    ],
)
def test_the_package_that_brings_a_library(soname: str, major: int, package: str | None) -> None:
    assert cuda_libraries.pip_package(soname, major) == package


def test_the_report_is_of_the_environment_that_it_is_given(tmp_path: Path) -> None:
    """A library that lies in a folder of that environment's path is reached there."""
    report = cuda_libraries.probe(model_environment())
    assert report.version == onnxruntime.__version__
    assert "CPUExecutionProvider" in report.loads
    wanted = next((x for x in report.libraries if x.path is None and x.required), None)
    if wanted is None:
        pytest.skip("nothing is missing here")
    compiled = subprocess.run(
        ["cc", "-shared", "-o", str(tmp_path / wanted.name), "-xc", "/dev/null"],
        capture_output=True,
    )
    if compiled.returncode:
        pytest.skip("no C compiler here")
    environment = model_environment()
    environment["LD_LIBRARY_PATH"] += f":{tmp_path}"
    again = cuda_libraries.probe(environment)
    (reached,) = {x.path for x in again.libraries if x.name == wanted.name}
    assert reached == str(tmp_path / wanted.name)


def test_an_onnxruntime_that_does_not_start_is_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'ImportError: no such thing' >&2\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(NoReport, match="no such thing"):
        cuda_libraries.probe(model_environment())


REPORT = Report(
    version="1.31.1",
    cuda="13.0",
    providers=(TENSORRT, CUDA, "CPUExecutionProvider"),
    loads=("CPUExecutionProvider",),
    failures={TENSORRT: "a session does not get it", CUDA: "a session does not get it"},
    libraries=(
        Library("libcudart.so.13", CUDA, True, "/site/nvidia/cu13/lib/libcudart.so.13", "x"),
        Library("libcublas.so.13", CUDA, True, None, "nvidia-cublas"),
        Library("libcudnn.so.9", CUDA, False, None, "nvidia-cudnn-cu13"),
        Library("libnvinfer.so.10", TENSORRT, True, None, "tensorrt-cu13<11"),
    ),
)


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_libraries, "DEVICE", tmp_path)


@pytest.mark.usefixtures("device")
def test_the_doctor_says_what_is_missing_and_what_to_install() -> None:
    found = doctor._libraries(REPORT)
    assert not found["ok"]
    assert "libcudart.so.13 from /site/nvidia/cu13/lib" in found["told"]
    assert (
        f"{CUDA} lacks libcublas.so.13, libcudnn.so.9 (some graphs): "
        "pip install nvidia-cublas nvidia-cudnn-cu13" in found["told"]
    )
    assert f"{TENSORRT} lacks libnvinfer.so.10: pip install 'tensorrt-cu13<11'" in found["told"]
    providers = doctor._providers(REPORT)
    assert not providers["ok"]
    assert f"{CUDA} does not load: without libcublas.so.13" in providers["told"]


@pytest.mark.usefixtures("device")
def test_the_doctor_is_content_with_cuda_where_tensorrt_is_missing() -> None:
    whole = replace(
        REPORT,
        loads=(CUDA, "CPUExecutionProvider"),
        libraries=tuple(replace(x, path=x.path or "/lib/x") for x in REPORT.libraries[:3])
        + REPORT.libraries[3:],
    )
    assert doctor._libraries(whole)["ok"]
    providers = doctor._providers(whole)
    assert f"models run on {CUDA}" in providers["told"]
    assert f"{TENSORRT} does not load: without libnvinfer.so.10" in providers["told"]


def test_the_driver_is_no_package() -> None:
    bare = replace(REPORT, libraries=(Library("libcuda.so.1", CUDA, True, None, None),))
    assert f"{CUDA} lacks libcuda.so.1: install the driver" in doctor._libraries(bare)["told"]


@pytest.mark.parametrize(("numpy", "fits"), [("1.26.4", True), ("2.5.2", False)])
def test_the_doctor_warns_of_a_numpy_that_ends_the_stubs(
    numpy: str, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {"nvidia-pytriton": "0.7.0", "numpy": numpy}
    monkeypatch.setattr(doctor, "_version", versions.get)
    found = doctor._triton()
    assert found["ok"] is fits
    assert ("pip install 'numpy<2'" in found["told"]) is not fits


def test_the_doctor_looks_with_the_environment_of_the_models(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    report = cuda_libraries.probe(model_environment())
    assert found["onnxruntime"]["loads"] == list(report.loads)
    assert [one["name"] for one in found["libraries"]["libraries"]] == [
        one.name for one in report.libraries
    ]
