"""Originals back into answers."""
