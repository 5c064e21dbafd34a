"""What the demo calls things."""

from __future__ import annotations

from gateway.demo.summary import CLOUD, NONE, ONPREM

PROTOCOLS = {
    "openai": "OpenAI",
    "kserve-rest": "KServe v2 REST",
    "kserve-grpc": "KServe v2 gRPC",
}
ZONES = {ONPREM: "on-prem", CLOUD: "cloud (simulated)", NONE: "not answered"}
