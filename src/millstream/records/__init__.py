"""Rows and keys in the forms in which they travel and are stored."""
