"""Messages and lines: between the bytes that systems exchange and rows of a schema."""
