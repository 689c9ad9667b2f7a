"""What the service knows, in SQLite or PostgreSQL: tables, transactions, migrations."""
