"""How expression text becomes DuckDB SQL: reading, types, casts, operators and the tables of functions."""
