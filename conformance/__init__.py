"""The conformance suite: what is promised, and how it is judged."""
