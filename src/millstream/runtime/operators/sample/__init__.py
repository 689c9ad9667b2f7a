"""A share of the rows of each key."""
