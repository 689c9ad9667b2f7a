"""Sources and sinks, one folder each: spec (options, capability), source, sink."""
