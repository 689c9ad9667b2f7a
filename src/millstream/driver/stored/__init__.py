"""The process in which a node reads state and dead letters: what is large, slow or a job's own code stays out of the node."""
