"""Transports: stdio and HTTP, and the classes for a transport of your own.

A transport splits its input into messages (`Framing`, or its own way), passes them to a `Connection`, and sends the
messages of the connection.
"""

from __future__ import annotations

from ..calls.asking.pending import OpenQuestions
from ..calls.channel import Channel
from ..engine.connection import Connection
from .framing import Framing

__all__ = ["Channel", "Connection", "Framing", "OpenQuestions"]
