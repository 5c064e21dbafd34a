"""The scanner: Presidio's recognizers and our own, over windows of a text."""
