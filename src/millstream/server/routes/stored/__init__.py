"""What the service keeps besides jobs: savepoints, checkpoints, artifacts, secrets."""
