"""Servers that speak OpenAI's protocol: `connector` sends calls, `sse` reads streams."""
