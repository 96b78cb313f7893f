"""Transports: stdio and HTTP, and the classes for a transport of your own.

A transport splits its input into messages (`Framing`, or its own way), passes them to a `Connection`, and sends the
messages of the connection.
"""

from __future__ import annotations

from ..engine.message_dispatch import Connection
from ..requests.requests_to_client import Channel, OpenQuestions
from .pipes import Framing

__all__ = ["Channel", "Connection", "Framing", "OpenQuestions"]
