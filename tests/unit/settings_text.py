"""One good settings file as text, and what is said of a bad one."""

from __future__ import annotations

import pytest

from gateway import config
from gateway.config import ConfigError

GOOD = """\
endpoints:
  gpu:
    kind: triton
    zone: onprem
    grpc: gpu-1:8001
  out:
    kind: openai
    zone: cloud
    url: https://api.openai.com/v1
models:
  chat:
    task: generate
    served_by:
      - endpoint: gpu
      - endpoint: out
        model: gpt-4.1
        substitute: true
"""


def changed(old: str, new: str, text: str = GOOD) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        config.parse(text, "f.yaml")
    return str(caught.value)
