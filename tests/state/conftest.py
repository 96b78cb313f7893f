"""Threads that take turns as often as they can."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Have the interpreter switch threads all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
