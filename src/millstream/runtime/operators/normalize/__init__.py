"""The last row of each key, which goes when another comes."""
