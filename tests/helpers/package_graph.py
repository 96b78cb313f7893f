"""The code of the package and what its modules import, read once for all tests that ask."""

from __future__ import annotations

from functools import cache

from imports import PACKAGE, Graph, Trees, imports, read


@cache
def package_trees() -> Trees:
    """Return the code of the package."""
    return read(PACKAGE)


@cache
def package_graph() -> Graph:
    """Return what its modules import."""
    return imports(package_trees(), PACKAGE.name)
