"""Messages on their way out: made of rows, staged, and handed to a producer."""
