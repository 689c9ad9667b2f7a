"""The tables: five of the original design, and what stands beside them. Constraints make double work impossible."""
