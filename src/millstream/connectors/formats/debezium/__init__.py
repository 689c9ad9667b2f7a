"""Changes of tables as Debezium writes them: envelopes of json around rows."""
