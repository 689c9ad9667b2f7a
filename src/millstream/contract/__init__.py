"""What authors of connectors implement."""
