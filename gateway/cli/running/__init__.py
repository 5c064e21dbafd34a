"""Commands that ask a running gateway."""
