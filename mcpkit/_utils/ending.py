"""Immediate exit of a process, without cleanup."""

from __future__ import annotations

from os import _exit as exit_now

__all__ = ["exit_now"]
