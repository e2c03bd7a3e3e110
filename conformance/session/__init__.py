"""A run of the shipped suite inside pytest. :mod:`conformance.plugin` loads it when the suite is
part of a session, and not before."""
