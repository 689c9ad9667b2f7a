"""Commands that plan, run and end a job."""
