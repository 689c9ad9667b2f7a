"""The REST interface of the service: what people and programs ask of `control/`, with who may ask it."""
