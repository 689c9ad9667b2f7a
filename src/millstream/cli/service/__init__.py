"""Commands for the service: starting it, and everything that is asked of one that runs."""
