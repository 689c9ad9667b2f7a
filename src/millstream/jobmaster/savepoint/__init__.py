"""The driver's part of savepoints."""
