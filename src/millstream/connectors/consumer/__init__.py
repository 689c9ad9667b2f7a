"""A function of the user as a sink: any library that can take a batch."""
