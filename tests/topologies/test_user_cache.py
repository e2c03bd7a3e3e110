"""The folder of the user's cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from topologies.user_cache import cache_folder


@pytest.mark.parametrize(
    ("cache_home", "expected"),
    [
        ("/caches", "/caches/pinproof/lab/images"),
        ("", "/home/u/.cache/pinproof/lab/images"),
        ("caches", "/home/u/.cache/pinproof/lab/images"),
        (None, "/home/u/.cache/pinproof/lab/images"),
    ],
)
def test_the_folder_follows_the_xdg_specification(
    monkeypatch: pytest.MonkeyPatch, cache_home: str | None, expected: str
) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if cache_home is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", cache_home)
    assert cache_folder("lab", "images") == Path(expected)
