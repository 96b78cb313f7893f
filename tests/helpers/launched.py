"""Stands in for the browser that a program starts: what it was to show comes to the test."""

from __future__ import annotations

import os
from pathlib import Path


class Launched:
    """Takes what programs open that are started with its environment.

    Args:
        folder: An empty folder for its commands.

    Attributes:
        environment: What such a program has to find in its environment, beside its own `PATH`.
    """

    def __init__(self, folder: Path) -> None:
        pipe = folder / "urls"
        os.mkfifo(pipe)
        self._urls = os.open(
            pipe, os.O_RDWR
        )  # for writing as well, so that it has no end while nobody writes
        for name in ("browser", "xdg-open"):
            command = folder / name
            command.write_text(f'#!/bin/sh\nprintf "%s\\n" "$1" > {pipe}\n')
            command.chmod(0o755)
        self.environment = {"BROWSER": str(folder / "browser")}
        self._folder = folder
        self._rest = b""

    def path(self, before: str) -> str:
        """The `PATH` of such a program: the commands here come before all others."""
        return os.pathsep.join([str(self._folder), before])

    def next(self) -> str | None:
        """Wait until a program opens something, and return its URL; None where nothing is opened any more."""
        while b"\n" not in self._rest:
            self._rest += os.read(self._urls, 65536)
        url, _, self._rest = self._rest.partition(b"\n")
        return url.decode() or None

    def end(self) -> None:
        """Say to who waits that nothing is opened any more."""
        os.write(self._urls, b"\n")

    def close(self) -> None:
        """Take nothing any more."""
        os.close(self._urls)
