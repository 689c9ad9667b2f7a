"""SQL statements as steps: text is parsed, checked clause by clause, and turned into calls on streams."""
