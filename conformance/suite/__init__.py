"""The shipped tests: every scenario on every machine."""
