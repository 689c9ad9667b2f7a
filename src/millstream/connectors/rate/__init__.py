"""Numbered rows at a steady pace."""
