"""One module per pass; `plan.compile` lists them in order."""
