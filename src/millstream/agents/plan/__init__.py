"""From an agent to its plan: actions by the events they listen to."""
