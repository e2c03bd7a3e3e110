"""What Go's libraries make of texts: numbers, JSON, printed values."""
