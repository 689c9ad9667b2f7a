"""When jobs run: cron with time zones, misfires, concurrency, dependencies, events, backfills, and the loop that decides."""
