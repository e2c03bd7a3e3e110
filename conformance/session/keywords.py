"""Which cases ``-k`` may leave, before pytest makes an item of each.

pytest itself decides, by the same expression, over the items that are made. Making 29,000 of them
to run one took most of that run's time, so what cannot match is left out here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

#: What ``-k`` finds in every item of the suite: the names of its file, its function and its marks.
_IN_EVERY_ITEM: Final = (
    "test_scenarios.py test_scenario pinproof parametrize pytestmark usefixtures"
)


def may_match(keyword: str) -> Callable[[str], bool]:
    """Whether the expression of ``-k`` may leave the case of this id (``area/scenario@machine``).

    True for every case that it leaves, and for some that it does not: an expression with ``not``
    may leave any, one without may leave those that have one of its words in them.
    """
    words = {word.lower() for word in re.findall(r"[^\s()]+", keyword)} - {"and", "or"}
    if not words or "not" in words or any(word in _IN_EVERY_ITEM for word in words):
        return lambda case: True

    def has_a_word(case: str) -> bool:
        name = f"test_scenario[{case}]".lower()
        return any(word in name for word in words)

    return has_a_word
