"""Who asks, and what they may do: tokens, sessions, roles, the gate before every route, and the audit behind it."""
