"""Keyed operators: the contract, the table of them, and one folder for each family."""
