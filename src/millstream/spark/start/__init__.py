"""How Spark comes up and goes down: the JVM, its class archive, the Python processes, and their folder.

Nothing here imports pyspark when it is loaded: the JVM is started before that.
"""
