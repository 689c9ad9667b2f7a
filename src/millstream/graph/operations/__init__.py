"""Operations of steps, as values."""
