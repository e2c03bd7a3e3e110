"""The catalogue of scenarios, by area."""
