"""How messages come and go: stdio, and what it takes to write another transport.

A transport frames messages (`Framing`, or its own way), hands them to a `Connection` and sends what that says.
"""

from __future__ import annotations

from ..calls.asking.pending import OpenQuestions
from ..calls.channel import Channel
from ..engine.connection import Connection
from .framing import Framing

__all__ = ["Channel", "Connection", "Framing", "OpenQuestions"]
