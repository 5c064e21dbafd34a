"""What the demo calls things, and each reason code in words."""

from __future__ import annotations

from gateway.demo.summary import CLOUD, NONE, ONPREM

PROTOCOLS = {
    "openai": "OpenAI",
    "kserve-rest": "KServe v2 REST",
    "kserve-grpc": "KServe v2 gRPC",
}
ZONES = {ONPREM: "on-prem", CLOUD: "cloud (simulated)", NONE: "not answered"}

_WHY = {
    (ONPREM, "restricted"): "restricted data may not leave",
    (ONPREM, "onprem_room"): "clear; on-prem had room",
    (ONPREM, "onprem_only"): "clear; no cloud could take it",
    (ONPREM, "latency_critical"): "clear; too urgent for the cloud",
    (ONPREM, "failover"): "a first attempt failed",
    (CLOUD, "spill_queue"): "clear; the on-prem queue was full",
    (CLOUD, "spill_deadline"): "clear; on-prem would have been late",
    (CLOUD, "spill_slow"): "clear; its on-prem server had become slow",
    (CLOUD, "spill_unavailable"): "clear; the on-prem Triton was down",
    (CLOUD, "failover"): "clear; on-prem failed, cloud took over",
    (CLOUD, "cloud_only"): "clear; only the cloud has its model",
    (NONE, "onprem_unavailable_restricted"): "503, retry later: never to the cloud",
    (NONE, "upstream_unreachable"): "its server died; too late for another",
    (NONE, "upstream_failed"): "its server failed; too late for another",
    (NONE, "deadline_exceeded"): "its latency budget ran out",
    (NONE, "deadline_exceeded_in_queue"): "its budget ran out waiting on-prem",
    (NONE, "deadline_unmeetable"): "refused: sure to be late",
    (NONE, "saturated"): "every queue was full",
    (NONE, "queue_full"): "its queue was full; retry later",
    (NONE, "cloud_full"): "only the cloud was left, and was full",
    (NONE, "no_eligible_endpoint"): "no endpoint could take it",
    (NONE, "caller_left"): "its caller gave up",
    (NONE, "internal"): "a bug: the log of the gateway says where",
}


def why(zone: str, reason: str) -> str:
    return _WHY.get((zone, reason), "")
