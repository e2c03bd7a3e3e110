"""``python -m pinproof``."""

from pinproof.cli import main

main()
