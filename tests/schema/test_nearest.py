"""Did you mean: which known name an unknown one is taken for."""

from __future__ import annotations

import pytest

from mcpkit.common.nearest import nearest

KNOWN = ["latitude", "longitude", "max_results", "query", "unit", "id"]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("lattitude", "latitude"),
        ("lat", "latitude"),
        ("LONG", "longitude"),
        ("maxResults", "max_results"),
        ("max-results", "max_results"),
        ("MAX_RESULTS", "max_results"),
        ("Query", "query"),
        ("search_query", "query"),
        ("units", "unit"),
        ("ID", "id"),
        ("page", None),
        ("q", None),
        ("", None),
        ("é", None),
        ("query" * 100_000, None),
    ],
)
def test_the_nearest_name(name: str, known: str | None) -> None:
    assert nearest(name, KNOWN) == known


def test_among_no_names_none_is_near() -> None:
    assert nearest("a", []) is None


def test_a_part_of_two_names_is_near_to_none() -> None:
    assert nearest("name", ["first_name_of_the_owner", "last_name_of_the_owner"]) is None
