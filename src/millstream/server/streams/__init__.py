"""Events as they happen: one reader of the database per process, and as many listeners as want."""
