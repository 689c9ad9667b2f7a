"""Databases as all parts use them: urls that hide passwords, calls that outlive a restart, PostgreSQL and SQLite sessions."""
