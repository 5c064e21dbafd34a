"""A model in other precisions and engines, kept only on evidence."""
