"""Models on their way into the repository: declared, built, made smaller, compared, listed.

A model is a directory of a Triton repository with a `model.yaml` beside its `config.pbtxt`. Nothing
here is imported by a gateway that serves.
"""
