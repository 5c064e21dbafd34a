"""Names in parts: under keys, in tables, at places of messages, and near what tells of a person."""
