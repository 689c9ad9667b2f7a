"""Asking a server: who asks, whom, how often, and what an answer means."""
