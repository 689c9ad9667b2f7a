"""Examines and mends checkpoints, state and savepoints; changes nothing it is not told to."""
