"""From a plan to one streaming query, and what runs in its workers."""
