"""State on its way into savepoints and out of them."""
