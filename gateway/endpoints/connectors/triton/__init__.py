"""Triton: its Open Inference Protocol with extensions, and OpenAI's calls on its models."""
