"""Servers that speak OpenAI's protocol: `provider` sends calls, `event_stream` reads streams."""
