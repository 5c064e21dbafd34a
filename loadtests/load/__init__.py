"""An open-loop and closed-loop load generator, and what it measured."""
