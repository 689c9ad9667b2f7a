"""What users subclass or are given: functions with state, timers, windows and a life."""
