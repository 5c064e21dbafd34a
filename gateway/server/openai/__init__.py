"""OpenAI's protocol over HTTP."""
