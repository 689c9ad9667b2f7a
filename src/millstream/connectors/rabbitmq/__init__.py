"""Queues and stream queues of RabbitMQ as sources, and both as sinks."""
