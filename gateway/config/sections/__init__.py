"""The sections of the settings, a file for each group."""
