"""What decides for many runs, without an engine: metadata, lifecycle, dispatcher, nodes, schedule, secrets, artifacts."""
