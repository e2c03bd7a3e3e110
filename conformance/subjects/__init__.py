"""The subjects that come with pinproof."""
