"""What AWS has in front of its services, in the place of OAuth and of server-sent events."""
