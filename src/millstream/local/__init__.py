"""Run a plan in this process, without a JVM: for tests and small runs."""
