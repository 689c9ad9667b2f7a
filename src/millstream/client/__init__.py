"""The service as Python calls: what the command line uses, and programs may."""
