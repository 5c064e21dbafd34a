"""What every command may meet before it has read any settings."""


class ConfigError(Exception):
    """One or more settings are wrong; each line says where and how to mend it."""
