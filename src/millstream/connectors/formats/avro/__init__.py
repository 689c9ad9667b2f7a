"""Messages of Avro: schemas, what they become, reading in blocks, writing by columns, registries."""
