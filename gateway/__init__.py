"""Spillway: a hybrid inference gateway that keeps restricted data on the premises."""

__version__ = "0.1.0"
