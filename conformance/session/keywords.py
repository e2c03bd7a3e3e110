"""Which cases ``-k`` may select, before pytest makes an item of each.

pytest itself applies the expression to the items that are made. Making 29,000 items to run one took
most of that run's time, so cases that cannot match are left out here.
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
    """Whether the expression of ``-k`` may select the case of an id (``area/scenario@machine``).

    True for every case that it selects, and for some others: an expression with ``not`` may select
    any case, one without may select those whose name has one of its words.
    """
    words = {word.lower() for word in re.findall(r"[^\s()]+", keyword)} - {"and", "or"}
    if not words or "not" in words or any(word in _IN_EVERY_ITEM for word in words):
        return lambda case: True

    def has_a_word(case: str) -> bool:
        name = f"test_scenario[{case}]".lower()
        return any(word in name for word in words)

    return has_a_word
