"""The dispatcher: takes jobs in, starts and stops their runs, and brings what is observed to what is wanted."""
