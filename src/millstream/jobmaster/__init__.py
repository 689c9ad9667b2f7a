"""What decides for one run, without an engine: start, ownership, epochs, participants, requests, results."""
