"""The driver process of one run: its socket to the node, its reports, journal and logs, its secrets, its watches."""
