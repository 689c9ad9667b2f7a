"""A sink that prints published rows."""
