"""Simple rules of scheduling: baselines, and what goes on when the scheduler has failed."""
