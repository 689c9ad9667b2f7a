"""Driver processes as their node sees them: started, spoken with, adopted, read and killed. Knows no metadata."""
