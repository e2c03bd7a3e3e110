"""``python -m pinproof``."""

from pinproof.start import main

main()
