"""A sink that writes to PostgreSQL and SQLite tables: an epoch becomes visible in one transaction."""
