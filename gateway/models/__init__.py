"""Models on their way into the repository: declared, built, made smaller, compared, listed.

A model is a directory of a Triton repository with a `model.yaml` beside its `config.pbtxt`. A
gateway that serves imports nothing of it but `profiling`, for what was measured here.
"""
