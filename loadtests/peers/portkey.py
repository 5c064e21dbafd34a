"""Portkey's open-source gateway, on Node.js."""

from __future__ import annotations

import json
import shutil

from loadtests.peers import Running, Site, environments
from loadtests.peers.process import Process
from loadtests.ports import free_port

# With the newest of its range, 1.19.19, it answers every stream of this provider with 500.
_PACKAGES = ("@portkey-ai/gateway@1.15.2", "@hono/node-server@1.3.3")
_START_S = 60.0


class Portkey:
    name = "portkey"
    note = (
        "one process of Node.js, with @hono/node-server 1.3.3: with 1.19.19 no stream is answered"
    )

    def __init__(self) -> None:
        self._process: Process | None = None

    def start(self, site: Site) -> Running:
        modules = environments.node(site.environments / self.name, _PACKAGES)
        scratch = site.scratch / self.name
        scratch.mkdir()
        port = free_port()
        script = modules / "@portkey-ai" / "gateway" / "build" / "start-server.js"
        self._process = Process(
            [shutil.which("node") or "node", script, f"--port={port}", "--headless"],
            scratch / "log",
            {"NODE_ENV": "production", "TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost"},
            cwd=scratch,
        )
        headers = {
            "x-portkey-provider": "openai",
            "x-portkey-custom-host": f"{site.url}/v1",
            "authorization": "Bearer unused",
        }
        body = {"model": "echo", "messages": [{"role": "user", "content": "ready?"}]}
        self._process.await_answer(
            port, "/v1/chat/completions", _START_S, json.dumps(body).encode(), headers
        )
        return Running((self._process.pid,), f"http://127.0.0.1:{port}", headers=headers)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
