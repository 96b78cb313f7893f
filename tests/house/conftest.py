from __future__ import annotations

import pytest

from imports import PACKAGE, Graph, Trees, imports, read


@pytest.fixture(scope="session")
def trees() -> Trees:
    """The code of the package."""
    return read(PACKAGE)


@pytest.fixture(scope="session")
def graph(trees: Trees) -> Graph:
    """What its modules import."""
    return imports(trees, PACKAGE.name)
