"""A whole gateway in this loop, with the settings of a test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from gateway.app.gateway import Gateway
from gateway.config import parse


@asynccontextmanager
async def serving(
    scratch: Path, endpoints: dict[str, Any], models: dict[str, Any], **more: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of it. Names of persons are not looked for."""
    document = {
        "listen": {"http_port": 0, "grpc_port": 0},
        "audit": {"directory": str(scratch / "audit")},
        "classify": {"names": {"engine": "off"}},
        "endpoints": endpoints,
        "models": models,
        **more,
    }
    gateway, ready = Gateway(parse(yaml.safe_dump(document))), asyncio.Event()
    running = asyncio.create_task(gateway.run(lambda _: ready.set()))
    await ready.wait()
    url = f"http://127.0.0.1:{gateway.http_port}"
    async with httpx.AsyncClient(base_url=url, trust_env=False, verify=False) as client:
        yield client
    gateway.stop()
    await running


def records(scratch: Path, kind: str = "call") -> list[dict[str, Any]]:
    """Those of a kind, once the gateway has stopped."""
    lines = [
        json.loads(line)
        for path in sorted((scratch / "audit").glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    return [line for line in lines if line.get("kind") == kind]
