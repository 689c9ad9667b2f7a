"""What is known of connectors, and a first look at what is behind those of a job."""
