"""What each front can say to each provider, feature by feature, and the page of it in the docs.

A front, a provider or a feature joins by a line in its table (`ways`, `features`). The page is
written by `python -m tests.translation`; a test holds that it is current and that every cell is
true.
"""
