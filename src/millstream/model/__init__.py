"""Values with no behaviour beyond their own checks."""
