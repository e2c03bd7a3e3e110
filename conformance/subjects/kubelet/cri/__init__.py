"""The messages of the Container Runtime Interface that the fake runtime needs."""
