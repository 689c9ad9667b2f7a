"""Run a plan on Spark: one streaming query per job, through PySpark's public API."""
