"""What is remembered of calls: clear beginnings, and which conversations are restricted."""
