"""Spans and metrics for a collector, by OTLP over HTTP (opentelemetry.io/docs/specs/otlp, 1.7).

The messages are those of the package `opentelemetry-proto`, an optional extra; how they travel is
the gateway's own: its client knows no proxies, no redirects and nothing of the environment.
"""

EXTRA = "spillway-gateway[otel]"
