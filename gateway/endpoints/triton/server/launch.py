"""What every process of one embedded Triton is started with: ports, directory, command line."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path

from gateway.endpoints.triton import TritonServerError, control
from gateway.endpoints.triton.installation import Installation
from gateway.endpoints.triton.server.home import ServerDirectory
from gateway.endpoints.triton.server.options import TritonOptions
from gateway.endpoints.triton.server.ports import LOOPBACK, TritonPorts, reserve_ports
from gateway.endpoints.triton.server.process import TritonProcess


def has_gpu() -> bool:
    return Path("/dev/nvidiactl").exists()


@dataclass(slots=True)
class TritonLaunch:
    ports: TritonPorts
    home: ServerDirectory
    command: list[str]
    environment: dict[str, str]
    _reserved: contextlib.ExitStack

    @classmethod
    async def prepare(cls, options: TritonOptions, key: str) -> TritonLaunch:
        """`key`: of what may tell the server to load models. Raises TritonServerError."""
        installation = Installation.find()
        for repository in options.repositories:
            if not repository.is_dir():
                raise TritonServerError(f"the model repository {repository} is not a directory")
        environment = installation.environment()
        await asyncio.to_thread(installation.check, environment)
        with contextlib.ExitStack() as reserved:
            ports = reserve_ports(options.ports, reserved)
            home = await asyncio.to_thread(ServerDirectory)
            reserved.callback(home.close)
            command = _command_line(options, installation, home, ports, key)
            return cls(ports, home, command, environment, reserved.pop_all())
        raise AssertionError("unreachable")

    def start(self) -> TritonProcess:
        return TritonProcess(self.command, self.environment, self.home.shm)

    def close(self) -> None:
        """Take the directory and the reservation of the ports away; safe to call twice."""
        self._reserved.close()


def _command_line(
    options: TritonOptions,
    installation: Installation,
    home: ServerDirectory,
    ports: TritonPorts,
    key: str,
) -> list[str]:
    backends = installation.backend_directory(home.path)
    command = [
        str(installation.binary),
        *(f"--model-repository={path.resolve()}" for path in options.repositories),
        f"--backend-directory={backends}",
        f"--backend-config=python,shm-default-byte-size={options.shm_per_model_bytes}",
        f"--backend-config=python,shm-growth-byte-size={options.shm_per_model_bytes}",
        f"--backend-config=python,shm-region-prefix-name={home.shm}",
        "--exit-on-error=false",
        f"--exit-timeout-secs={max(1, round(options.stop_grace_s))}",
        f"--http-address={LOOPBACK}",
        f"--http-port={ports.http}",
        f"--http-thread-count={options.http_threads}",
        f"--grpc-address={LOOPBACK}",
        f"--grpc-port={ports.grpc}",
        f"--metrics-address={LOOPBACK}",
        f"--metrics-port={ports.metrics}",
        "--log-verbose=0",
    ]
    if not options.complete_configs:
        command += ["--disable-auto-complete-config"]
    if not has_gpu():
        # Looking for GPUs that are not there costs warnings in every log.
        command += ["--allow-gpu-metrics=false", "--pinned-memory-pool-byte-size=0"]
    if options.reload:
        command += control.options(key)
    elif options.models:
        command += ["--model-control-mode=explicit"]
        command += [f"--load-model={name}" for name in options.models]
    return command
