"""What classification finds, and what it costs."""
