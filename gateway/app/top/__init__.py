"""What a running gateway does now, for a person at a terminal (`spillway top`)."""
