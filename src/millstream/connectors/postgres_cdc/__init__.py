"""A source that reads a table of PostgreSQL and then every change of it."""
