"""The source half: rows of a query or table, in ranges of its key."""
