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
    ],
)
def test_the_folder_follows_the_xdg_specification(
    monkeypatch: pytest.MonkeyPatch, cache_home: str, expected: str
) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.setenv("XDG_CACHE_HOME", cache_home)
    assert cache_folder("lab", "images") == Path(expected)


def test_no_cache_home_is_the_same_as_an_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == Path("/home/u/.cache/pinproof")
