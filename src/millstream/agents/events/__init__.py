"""Events of agents, and the values that they may hold."""
