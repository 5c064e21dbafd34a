"""Where the wheel put the server, and what it needs to run there."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.endpoints.triton import TritonNotInstalled, cuda_libraries

# Models need these of the gateway's environment and nothing else: it may hold the keys of cloud
# providers, and proxy settings.
_PASSED_ON = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ", "CUDA_VISIBLE_DEVICES")


def model_environment() -> dict[str, str]:
    """What the embedded Triton gives its models. Where there is none, models run in a server that
    is not ours, and this process's own with the pip packages' libraries comes closest."""
    try:
        return Installation.find().environment()
    except TritonNotInstalled:
        libraries = cuda_libraries.folders(cuda_libraries.site_packages())
        path = ":".join(map(str, (*libraries, *cuda_libraries.inherited())))
        return os.environ | {"LD_LIBRARY_PATH": path}


@dataclass(frozen=True, slots=True)
class Installation:
    """Where the parts of the server lie on this machine."""

    binary: Path
    backend: Path
    stub: Path
    libraries: Path
    site_packages: tuple[Path, ...]

    @classmethod
    def find(
        cls, package_name: str = "pytriton", python: tuple[int, int] = sys.version_info[:2]
    ) -> Installation:
        version = f"{python[0]}.{python[1]}"
        if python >= (3, 13):
            raise TritonNotInstalled(
                f"the embedded Triton does not run on Python {version}: use Python 3.11 or 3.12, "
                "or connect to a Triton server by naming it in the config"
            )
        package = importlib.util.find_spec(package_name)  # found, not imported: importing is slow
        if package is None or package.origin is None:
            raise TritonNotInstalled(
                "the embedded Triton is not installed: pip install 'spillway-gateway[embedded]', "
                "or connect to a Triton server by naming it in the config"
            )
        home = Path(package.origin).parent
        installation = cls(
            binary=home / "tritonserver/bin/tritonserver",
            backend=home / "tritonserver/backends/python",
            stub=home / f"tritonserver/python_backend_stubs/{version}/triton_python_backend_stub",
            libraries=home.parent / "nvidia_pytriton.libs",
            site_packages=tuple(
                dict.fromkeys(
                    (home.parent, *(Path(sysconfig.get_path(k)) for k in ("purelib", "platlib")))
                )
            ),
        )
        for part in (installation.binary, installation.backend, installation.stub):
            if not part.exists():
                raise TritonNotInstalled(
                    f"the installed nvidia-pytriton lacks {part.name} for Python {version}: "
                    "pip install --force-reinstall 'spillway-gateway[embedded]'"
                )
        return installation

    def environment(self) -> dict[str, str]:
        passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        # The stub embeds Python: it must load the library of the Python that runs now, not of
        # another one that happens to be on the machine.
        libraries = [self.libraries, Path(sysconfig.get_config_var("LIBDIR") or sys.base_prefix)]
        libraries.append(Path(sys.base_prefix, "lib"))
        libraries += cuda_libraries.folders((*self.site_packages, *cuda_libraries.site_packages()))
        libraries += cuda_libraries.inherited()  # a container's CUDA, or its driver's libraries
        # It ignores PYTHONPATH where it was built isolated (3.11, 3.12), and derives its modules
        # from the first python3 in PATH: that has to be ours, or models import another's packages.
        path = [str(Path(sys.executable).parent), passed_on.get("PATH", os.defpath)]
        return passed_on | {
            "PATH": ":".join(path),
            "LD_LIBRARY_PATH": ":".join(map(str, dict.fromkeys(libraries))),
            "PYTHONPATH": ":".join(map(str, self.site_packages)),
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }

    def backend_directory(self, under: Path) -> Path:
        """The wheel's Python backend joined with the stub of this Python, outside site-packages."""
        python = under / "backends/python"
        python.mkdir(parents=True)
        for part in self.backend.iterdir():
            if part.is_file():
                (python / part.name).symlink_to(part)
        (python / self.stub.name).symlink_to(self.stub)
        return python.parent

    def check(self, environment: Mapping[str, str]) -> None:
        """Without its libraries the stub fails once per model, each time after a long wait."""
        tried = subprocess.run(
            [self.stub],
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        if tried.returncode == 127:
            raise TritonNotInstalled(
                f"the Python stub of the embedded Triton does not start: {tried.stderr.strip()}. "
                "It needs Python's shared library (on Debian and Ubuntu: the package "
                f"libpython{sys.version_info.major}.{sys.version_info.minor})"
            )
