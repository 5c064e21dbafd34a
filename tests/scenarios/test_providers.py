"""What the models of the embedded server really run on, as the gateway tells it."""

from __future__ import annotations

from tests.live import LiveGateway, wait_until

WITH_GRAPHS = {"fraud_score", "image_inspection", "minilm", "names"}


def test_the_gateway_says_what_each_model_runs_on(gateway: LiveGateway) -> None:
    endpoints = {e["endpoint"]: e for e in gateway.client.get("/status").json()["endpoints"]}
    told = endpoints["local"]["runs_on"]
    assert told.keys() == WITH_GRAPHS
    lines = gateway.metrics().splitlines()
    for model, one in told.items():
        assert one["graph"].endswith(".onnx")
        labels = f'endpoint="local",model="{model}",provider="{one["provider"]}"'
        assert f"spillway_model_provider{{{labels}}} 1.0" in lines
        wait_until(lambda model=model, one=one: loud(gateway, model, one["provider"]), 10)
    assert endpoints["cloud"]["runs_on"] == {}


def loud(gateway: LiveGateway, model: str, provider: str) -> bool:
    log = gateway.log_path.read_text().splitlines()
    return any(f"{model} 1 runs " in line and f" on {provider}" in line for line in log)
