"""Who may do what: sessions, tokens, and the record of what was done."""
