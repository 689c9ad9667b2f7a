"""What decides for many runs: metadata, lifecycle, dispatcher, nodes and claims, schedule, secrets, artifacts. Never imports pyspark."""
