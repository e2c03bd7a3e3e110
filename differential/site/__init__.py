"""The pages of the site that are made of the code and of the recordings, at build time."""
