"""The states of a run, which moves are legal, and how one is made: compare-and-set with an event that says why."""
