"""What each stage of a call costs the processor."""
