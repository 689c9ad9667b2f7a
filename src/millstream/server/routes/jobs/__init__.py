"""Jobs: their definitions, versions, settings, schedules, backfills and hooks."""
