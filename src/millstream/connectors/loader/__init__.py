"""A function of the user as a source: any library that can go on behind a position."""
