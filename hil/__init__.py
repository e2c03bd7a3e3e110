"""Hardware in the loop: real nodes over SSH."""
