"""Settings of several workers that cannot hold what they promise do not start (O5)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.accounting.ledger.store import LedgerStore
from gateway.app.gateway import Gateway
from gateway.cli.serve import overridden
from gateway.cluster.workers.parent import check_shared
from gateway.config import ConfigError, Settings, parse


def found(scratch: Path, **more: Any) -> Settings:
    return parse(
        yaml.safe_dump(
            {
                "listen": {"http_port": 0, "grpc_port": 0, "workers": 2},
                "audit": {"directory": str(scratch / "audit")},
                "endpoints": {"gpu": {"kind": "triton", "zone": "onprem", "grpc": "127.0.0.1:1"}},
                "models": {"m": {"served_by": [{"endpoint": "gpu"}]}},
                **more,
            }
        ),
        "f.yaml",
    )


def test_several_workers_without_a_parent_do_not_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="several workers need a parent"):
        asyncio.run(Gateway(found(tmp_path)).run(Gateway.stop))


def test_budgets_need_a_ledger_that_processes_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = found(tmp_path, routing={"spill_budget_usd_total": 1.0})
    check_shared(settings)
    monkeypatch.setattr(LedgerStore, "shared", False)
    check_shared(found(tmp_path))
    with pytest.raises(ConfigError, match=r"set listen\.workers to 1"):
        check_shared(settings)


def test_a_ledger_that_cannot_be_opened_is_told_before_a_worker_starts(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"not a database" * 1000)
    with pytest.raises(ConfigError, match="is damaged"):
        check_shared(found(tmp_path))


def test_shadows_and_clusters_are_of_one_process(tmp_path: Path) -> None:
    shadows = {"shadows": {"other": {"policy": "static_split"}}}
    with pytest.raises(ConfigError, match="a shadow sees one worker"):
        found(tmp_path, routing=shadows)


def test_as_many_workers_as_processors(tmp_path: Path) -> None:
    settings = overridden(found(tmp_path), {"workers": "auto"})
    assert settings.listen.worker_count == len(os.sched_getaffinity(0))
    with pytest.raises(ConfigError):
        overridden(found(tmp_path), {"workers": 0})
