"""Tensors as the text and the numbers that they may be."""
