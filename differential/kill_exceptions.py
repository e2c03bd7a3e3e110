"""What the kill matrix cannot show, and why: one reason for several names.

What belongs here: miniatures that no scenario catches, and scenarios that no miniature makes fail.
What never does: what some scenario catches (:func:`differential.kill_matrix.page` refuses it).
"""

from __future__ import annotations

from typing import Final

#: Miniatures by the reason why no scenario catches them.
UNCAUGHT: Final[dict[str, tuple[str, ...]]] = {}

#: Scenarios by the reason why no miniature makes them fail.
NEVER_FAILED: Final[dict[str, tuple[str, ...]]] = {}
