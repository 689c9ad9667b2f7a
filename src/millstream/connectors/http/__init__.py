"""Pages of HTTP APIs as a source, and rows sent to one as a sink."""
