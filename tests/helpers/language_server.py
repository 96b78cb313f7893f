"""Asks pyright's language server what an editor shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "node_modules/pyright/langserver.index.js"
NODE = Path(sys.executable).with_name("node")


class Editor:
    """One file, open in an editor."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input: IO[bytes] = process.stdin
        self._output: IO[bytes] = process.stdout
        self._number = 0
        self._folder = folder
        self.ask("initialize", processId=None, rootUri=folder.as_uri(), capabilities={})
        self.tell("initialized")

    def open(self, name: str, text: str) -> None:
        """Open a file with this text."""
        self._text = text
        self._uri = (self._folder / name).as_uri()
        document = {"uri": self._uri, "languageId": "python", "version": 1, "text": text}
        self.tell("textDocument/didOpen", textDocument=document)

    def hover(self, words: str) -> str:
        """Return what is shown over the last of some words, where they stand first."""
        before = self._text[: self._text.index(words) + len(words) - 1]
        position = {"line": before.count("\n"), "character": len(before) - before.rfind("\n") - 1}
        shown = self.ask("textDocument/hover", textDocument={"uri": self._uri}, position=position)
        contents: str = shown["contents"]["value"]
        return contents

    def ask(self, method: str, **params: Any) -> Any:
        """Send a request, and return its result."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" in message and "id" in message:
                self._send({"id": message["id"], "result": None})
            elif message.get("id") == self._number:
                return message["result"]

    def tell(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._input.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._input.flush()

    def _receive(self) -> dict[str, Any]:
        length = 0
        while (line := self._output.readline()) != b"\r\n":
            if not line:
                raise EOFError("the language server has ended")
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        message: dict[str, Any] = json.loads(self._output.read(length))
        return message


@contextmanager
def editor(folder: Path) -> Iterator[Editor]:
    """Open an editor on a folder, whose interpreter is this one."""
    settings = {
        "venvPath": str(Path(sys.prefix).parent),
        "venv": Path(sys.prefix).name,
        "extraPaths": [str(ROOT)],
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    environment = {**os.environ, "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [str(NODE), str(SERVER), "--stdio"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        try:
            yield Editor(process, folder)
        finally:
            process.kill()
