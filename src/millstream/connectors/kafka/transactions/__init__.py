"""Transactions that bear a mark: who owns a sink, what it has published, and who takes over."""
