"""What a process is set up with before it serves."""
