"""``mydev conform operators``."""
