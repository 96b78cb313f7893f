from __future__ import annotations

import pytest

from imports import Graph, Trees
from tests.helpers.package_graph import package_graph, package_trees


@pytest.fixture(scope="session")
def trees() -> Trees:
    """The code of the package."""
    return package_trees()


@pytest.fixture(scope="session")
def graph() -> Graph:
    """What its modules import."""
    return package_graph()
