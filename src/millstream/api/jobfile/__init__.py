"""Jobs as YAML or JSON files: every step goes through the public API."""
