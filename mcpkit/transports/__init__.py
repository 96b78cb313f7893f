"""How messages come and go: stdio, and what it takes to write another transport.

A transport frames messages (`Framing`, or its own way), hands them to a `Connection` and sends what that says.
"""

from __future__ import annotations

from ..engine.connection import Connection
from .framing import Framing

__all__ = ["Connection", "Framing"]
