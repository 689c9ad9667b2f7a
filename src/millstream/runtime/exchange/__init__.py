"""How rows change subtask."""
