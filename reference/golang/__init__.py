"""What Go makes of texts and slices: numbers, JSON, printed values, shared arrays."""
