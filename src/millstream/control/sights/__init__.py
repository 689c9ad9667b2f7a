"""A run as it is seen: its vertices, its progress and its figures, from what its node tells now or what is stored of it."""
