"""Where the providers of LiteLLM's model names are reached in a protocol that Spillway speaks.

LiteLLM writes a deployment as `provider/model` and knows each provider's address and dialect.
Of the dialects that Spillway speaks, an import takes OpenAI's, and Anthropic's for Claude: what
matters is whether a provider offers one of them, and where (as of November 2026, by the providers'
own documentation).
"""

from __future__ import annotations

from gateway.config.providers import find

DESCRIBED = {
    "anthropic": "anthropic",
    "azure": "azure",
    "azure_text": "azure",
    "cerebras": "cerebras",
    "cohere_chat": "cohere",
    "deepinfra": "deepinfra",
    "deepseek": "deepseek",
    "fireworks_ai": "fireworks",
    "gemini": "gemini",
    "groq": "groq",
    "mistral": "mistral",
    "nvidia_nim": "nvidia",
    "openai": "openai",
    "openrouter": "openrouter",
    "perplexity": "perplexity",
    "text-completion-openai": "openai",
    "together_ai": "together",
    "xai": "xai",
}
"""The description (`gateway.config.providers`) of each."""

IN_THE_CLOUD = {name: url for name, described in DESCRIBED.items() if (url := find(described).url)}

SELF_HOSTED = {
    "custom_openai": "",
    "hosted_vllm": "",
    "litellm_proxy": "",
    "llamafile": "http://127.0.0.1:8080/v1",
    "lm_studio": "http://127.0.0.1:1234/v1",
    "ollama": "http://127.0.0.1:11434/v1",
    "ollama_chat": "http://127.0.0.1:11434/v1",
    "openai_like": "",
    "vllm": "",
    "xinference": "http://127.0.0.1:9997/v1",
}
"""Their usual address; empty where `api_base` has to say it."""

AZURE = frozenset({"azure", "azure_text"})

OTHER_DIALECTS = {
    "azure_ai": "write it as `openai/MODEL`, with its address in OpenAI's protocol as api_base",
    "bedrock": "write an endpoint of kind bedrock with the region's url and credential.aws",
    "sagemaker": "write an endpoint with `provider: sagemaker`, its url and credential.aws",
    "triton": "write an endpoint of kind triton with `grpc: host:port` and the model's inputs",
    "vertex_ai": "write an endpoint with `provider: vertex-gemini`, its project's url and a "
    "`credential`",
}
"""What to do instead. Any other provider is named as unknown."""
