"""What connectors to message brokers share: an event loop for their clients, beginnings, rows of messages, and sending."""
