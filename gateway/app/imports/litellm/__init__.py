"""`config.yaml` of LiteLLM's proxy as settings of Spillway."""
