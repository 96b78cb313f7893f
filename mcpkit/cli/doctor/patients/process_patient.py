"""A process that is looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from .patient import Patient
from .process import Command, ProcessConversation


@dataclass
class ProcessPatient(Patient):
    """A process that is looked at.

    Attributes:
        command: How it is started.
        main: The process that is asked; None before it has started.
        noise_told: How much noise on standard output has been told.
        is_output_seen: Whether standard output has been looked at.
        is_main_lost: Whether the process that was asked answers no more.
        other: A process whose system has another encoding; None before there is one.
        started: All processes.
    """

    command: Command = field(kw_only=True)
    main: ProcessConversation | None = None
    noise_told: int = 0
    is_output_seen: bool = False
    is_main_lost: bool = False
    other: ProcessConversation | None = None
    started: list[ProcessConversation] = field(default_factory=list[ProcessConversation])

    def start(self, env: Mapping[str, str] | None = None) -> ProcessConversation:
        """Start another process of it.

        Args:
            env: More variables of its environment.

        Raises:
            TransportError: It cannot be started.
        """
        process = ProcessConversation(self.command, self.patience, env)
        self.started.append(process)
        return process

    async def close(self) -> None:
        """End all processes."""
        await asyncio.gather(*(process.close() for process in self.started))
