"""The messages of the Container Runtime Interface, as far as the fake runtime needs them."""
