"""State of earlier versions and layouts, and whether the present one can go on from it."""
