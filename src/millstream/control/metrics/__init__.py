"""What a service tells Prometheus: figures of runs from their reports, of the fleet from the metadata, of the server itself."""
