"""What to do with the demo while it goes on serving: addresses, first calls, files to look at."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.demo.run import DemoResult, Options


def where(result: DemoResult, options: Options) -> Iterator[str]:
    http, grpc = result.gateway.http_url, f"127.0.0.1:{result.gateway.grpc_port}"
    yield "Spillway goes on serving. Ctrl-C stops it, its Triton and the simulated cloud."
    yield ""
    yield f"  OpenAI           {http}/v1"
    yield f"  KServe v2 REST   {http}/v2"
    yield f"  KServe v2 gRPC   {grpc}"
    yield f"  state, metrics   {http}/status  {http}/metrics"
    yield f"  console          {http}/console  (in a browser)"
    yield ""
    yield "Ask once without and once with personal data, and see where each is answered, and why:"
    yield ""
    yield from _curl(http, "How do tides work?")
    yield from _curl(http, "Write to alma.abbott@example.org")
    yield ""
    yield "From Python, with the clients that you already use:"
    yield ""
    yield "  from openai import OpenAI"
    yield f'  client = OpenAI(base_url="{http}/v1", api_key="none-needed")'
    yield '  client.embeddings.create(model="minilm", input="How do tides work?")'
    yield ""
    yield "  import tritonclient.grpc"
    yield f'  tritonclient.grpc.InferenceServerClient("{grpc}").get_server_metadata()'
    yield ""
    yield f"  decision records   {options.records}  (without content: spillway audit)"
    yield f"  gateway's log      {options.gateway_log}"
    yield f"  cloud's byte log   {options.cloud_bytes}  (all that reached it)"


def _curl(http: str, text: str) -> Iterator[str]:
    yield f"  curl -si --noproxy '*' {http}/v1/chat/completions \\"
    yield "    -H 'content-type: application/json' \\"
    message = f'{{"role": "user", "content": "{text}"}}'
    yield f"""    -d '{{"model": "scribe", "messages": [{message}]}}' \\"""
    yield "    | grep -E 'x-spillway-(zone|reason|sensitivity)'"
