"""The same queries written by hand for other engines, and what runs all sides on the same files."""
