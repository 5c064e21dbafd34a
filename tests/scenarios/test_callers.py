"""A whole gateway with TLS and credentials: `spillway serve`, keys that the command makes beside
it, and unmodified clients over both listeners."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
import tritonclient.grpc
from tritonclient.utils import InferenceServerException

from tests import live
from tests.unit.pki import Authority, Pair, client


@dataclass
class Up:
    gateway: live.LiveGateway
    authority: Authority
    shows: Pair
    store: Path

    @property
    def url(self) -> str:
        return self.gateway.http_url.replace("http://", "https://")

    def http(self, key: str = "") -> httpx.Client:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        tls = client(self.authority, self.shows)
        return httpx.Client(base_url=self.url, verify=tls, trust_env=False, headers=headers)

    def keys(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "gateway", "keys", *arguments, "--store", str(self.store)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.strip()

    def infer_over_grpc(self, key: str) -> np.ndarray[Any, Any]:
        to = tritonclient.grpc.InferenceServerClient(
            self.gateway.grpc_target, ssl=True, root_certificates=str(self.authority.file),
            private_key=str(self.shows.key), certificate_chain=str(self.shows.cert),
        )  # fmt: skip
        tensors = [tritonclient.grpc.InferInput(n, [1, 16], "INT32") for n in ("INPUT0", "INPUT1")]
        for tensor in tensors:
            tensor.set_data_from_numpy(np.ones((1, 16), np.int32))
        try:
            answer = to.infer("simple", tensors, headers={"authorization": f"Bearer {key}"})
            found: np.ndarray[Any, Any] = answer.as_numpy("OUTPUT0")
            return found
        finally:
            to.close()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    scratch = tmp_path_factory.mktemp("callers")
    authority = Authority(scratch)
    own, shows = authority.issue("127.0.0.1"), authority.issue("spiffe://corp.example/batch")
    store = scratch / "keys.db"
    document = live.settings(None, scratch)
    document["listen"] |= {
        "tls": {
            "cert_file": str(own.cert),
            "key_file": str(own.key),
            "client_ca_file": str(authority.file),
        }
    }
    document["key_store"] = str(store)
    document["certificates"] = {
        "batch": {"san": "spiffe://corp.example/batch", "tenant": "batch", "models": ["simple"]}
    }
    made = Up(None, authority, shows, store)  # type: ignore[arg-type]
    made.keys("create", "first")
    with live.serving(document, scratch) as gateway:
        made.gateway = gateway
        yield made


def test_unmodified_clients_call_with_a_key_over_tls_until_it_is_revoked(up: Up) -> None:
    key = up.keys("create", "acme", "--models", "scribe", "--models", "simple")
    with up.http(key) as http:
        live.wait_until(lambda: http.get("/status").status_code == 200, 5)
        sdk = openai.OpenAI(base_url=f"{up.url}/v1", api_key=key, http_client=http)
        assert [m.id for m in sdk.models.list()] == [], "the certificate may use `simple` alone"
        assert up.infer_over_grpc(key).tolist() == [[2] * 16]
        record = up.gateway.records()[-1]
        assert record["tenant"] == "acme"
        began_s = time.monotonic()
        up.keys("revoke", key[7:19])
        live.wait_until(lambda: http.get("/status").status_code == 401, 10)
        assert time.monotonic() - began_s < 5.0 + 3.0, "and the time of the command itself"
        with pytest.raises(openai.AuthenticationError):
            sdk.models.list()
        with pytest.raises(InferenceServerException, match="UNAUTHENTICATED"):
            up.infer_over_grpc(key)


def test_a_certificate_alone_is_a_caller(up: Up) -> None:
    with up.http() as http:
        tensor = {"datatype": "INT32", "shape": [1, 16], "data": [1] * 16}
        body = {"inputs": [{"name": n, **tensor} for n in ("INPUT0", "INPUT1")]}
        assert http.post("/v2/models/simple/infer", json=body).status_code == 200
        assert up.gateway.records()[-1]["tenant"] == "batch"
        assert http.post("/v2/models/scribe/infer", json=body).status_code == 403
        status = http.get("/status").json()
        assert status["development_mode"] is False
        metrics = http.get("/metrics").text
    assert "spillway_credentials_refused_total" in metrics


def test_whoever_shows_no_certificate_gets_no_answer(up: Up) -> None:
    with (
        httpx.Client(verify=client(up.authority), trust_env=False) as http,
        pytest.raises(httpx.HTTPError),
    ):
        http.get(f"{up.url}/healthz")


def test_a_healthcheck_shows_one(up: Up) -> None:
    command = [sys.executable, "-m", "gateway", "healthcheck", "--url", up.url]
    shown = ["--cert-file", str(up.shows.cert), "--key-file", str(up.shows.key)]
    assert subprocess.run([*command, *shown], check=False, timeout=60).returncode == 0
    assert subprocess.run(command, check=False, timeout=60, capture_output=True).returncode == 1


def test_no_credential_is_in_what_the_gateway_wrote(up: Up) -> None:
    key = up.keys("create", "acme")
    with up.http(key) as http:
        live.wait_until(lambda: http.get("/status").status_code == 200, 5)
    with up.http(key[:-1] + ("1" if key.endswith("0") else "0")) as http:
        assert http.get("/status").status_code == 401
    with up.http() as http:
        told = http.get("/metrics").text
    wrote = up.gateway.log_path.read_text() + json.dumps(up.gateway.records()) + told
    assert key[20:60] not in wrote
    assert key.encode() not in b"".join(p.read_bytes() for p in up.store.parent.glob("keys.db*"))
