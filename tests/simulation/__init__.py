"""A whole gateway in a world that one number makes: `python -m tests.simulation --seeds 1000`."""
