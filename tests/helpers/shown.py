"""What the tests of results have in common: an object that says where it is shown."""

from __future__ import annotations

import threading

import pytest

ERAS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])


def in_loop() -> bool:
    return threading.current_thread() is threading.main_thread()


class Shown:
    """Shows where it is shown."""

    def _repr_markdown_(self) -> str:
        return "shown in the loop" if in_loop() else "shown in a thread"
