"""Declarations for tests, as text."""

from __future__ import annotations

MINIMAL = """\
name: scores
about: rows to scores
licence: Apache-2.0
source: {script: train.py}
inputs:
  rows: {datatype: FP32, dims: [4]}
outputs:
  score: {datatype: FP32, dims: [2]}
targets:
  embedded: {backend: python}
"""

GRAPH = (
    MINIMAL
    + """\
batch: {min: 1, opt: 4, max: 16}
graph: {}
"""
)

TEXT = """\
name: texts
about: texts to vectors
licence: Apache-2.0
source: {url: https://models.example}
task: embeddings
inputs:
  text: {datatype: BYTES, dims: [1], text: true}
outputs:
  embedding: {datatype: FP32, dims: [8]}
batch: {min: 1, opt: 4, max: 16}
axes:
  pieces: {min: 1, opt: 16, max: 64}
graph:
  inputs:
    input_ids: {datatype: INT64, dims: [pieces]}
  text: {input: text, axis: pieces}
targets:
  embedded: {backend: python}
"""
