"""What the services of AWS do alike, whatever they serve: event streams and failures."""
