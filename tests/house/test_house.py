"""The house stands as it is declared: who may import whom, and that modules keep to themselves what is private.

Counts that have no target may not grow.
"""

from __future__ import annotations

import pytest

from counts import counts, kept
from floors import Floors, rooms
from imports import PACKAGE, Graph, Trees, circles, entries, reaches

pytestmark = pytest.mark.slow

MOST_ENTRIES = 20


@pytest.fixture(scope="session")
def now(trees: Trees, graph: Graph) -> dict[str, int]:
    return counts(PACKAGE, trees, graph)


@pytest.mark.parametrize("name", kept())
def test_no_count_grows(name: str, now: dict[str, int]) -> None:
    assert now[name] <= kept()[name], "bench/house/counts.py -v says where"


def test_all_counts_are_kept(now: dict[str, int]) -> None:
    assert list(kept()) == list(now)


def test_every_module_stands_on_a_floor(trees: Trees) -> None:
    floors = Floors.declared()
    assert [module for module in trees if floors.entry(module) is None] == [], (
        "say where in tests/house/floors.txt"
    )


def test_every_entry_of_the_floors_is_there(trees: Trees) -> None:
    floors = Floors.declared()
    used = {floors.entry(module) for module in trees}
    assert [entry for row in floors.rows for entry in row if entry not in used] == []


def test_no_modules_import_each_other(graph: Graph) -> None:
    assert circles(graph) == []


def test_no_rooms_import_each_other(graph: Graph) -> None:
    assert circles(rooms(graph)) == []


def test_imports_run_downward(graph: Graph) -> None:
    assert [f"{low} imports {high}" for low, high in Floors.declared().upward(graph)] == []


def test_no_module_reaches_for_what_another_keeps_to_itself(trees: Trees) -> None:
    assert list(map(str, reaches(trees, PACKAGE.name))) == []


def test_the_root_shows_the_architecture() -> None:
    assert len(entries(PACKAGE)) <= MOST_ENTRIES, entries(PACKAGE)
