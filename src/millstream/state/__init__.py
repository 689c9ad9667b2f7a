"""What steps keep per key: pages of entries, columns and segments."""
