"""The measured libraries, and what each of them supports."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from client import HANDSHAKE, STATELESS

PEERS = Path(__file__).resolve().parent / "peers"
sys.path.insert(0, str(PEERS))

BOTH = (HANDSHAKE, STATELESS)
KINDS = ("basic", "structured", "500")


@dataclass(frozen=True)
class Contender:
    """A server under test. `module` is its file below `peers/`; without one it runs on node."""

    name: str
    runtime: str
    module: str | None
    revisions: tuple[str, ...] = BOTH
    kinds: tuple[str, ...] = KINDS
    in_memory: bool = True
    accept: str = "application/json, text/event-stream"
    calls: bool = True
    needs_sessions: bool = False
    listens: bool = False

    def argv(self, kind: str) -> list[str]:
        """Return the command that starts the server with the tools of `kind`."""
        file = PEERS / (f"{self.module}.py" if self.module else "node/server.mjs")
        return [self.runtime, str(file), kind]

    def web_argv(self, mode: str, descriptor: int) -> list[str]:
        """Return the command that serves HTTP on the socket `descriptor`; `peers/web.py` lists the modes."""
        return [self.runtime, str(PEERS / "web.py"), str(self.module), mode, str(descriptor)]


def contenders(python: Path, node: str | None) -> list[Contender]:
    """Return everybody, mcpkit first and the official SDK, against which the ratios are, second."""
    interpreter = str(python)
    everybody = [
        Contender("mcpkit", interpreter, "mcpkit_server"),
        Contender("mcp", interpreter, "mcp_server"),
        Contender("fastmcp", interpreter, "fastmcp_server"),
        Contender("chuk", interpreter, "chuk_server", revisions=(HANDSHAKE,)),
        Contender("mcp lowlevel", interpreter, "mcp_lowlevel_server", kinds=("basic",), in_memory=False),
    ]
    if node is not None:
        everybody.append(Contender("typescript", node, None, in_memory=False))
    return everybody


def web_contenders(python: Path) -> list[Contender]:
    """Return everybody who serves HTTP, in the same order; "bare" is what the ASGI server alone can carry."""
    interpreter = str(python)
    return [
        Contender("mcpkit", interpreter, "mcpkit_server", listens=True),
        Contender("mcp", interpreter, "mcp_server", listens=True),
        Contender("bare", interpreter, "bare_server"),
        Contender("fastmcp", interpreter, "fastmcp_server"),
        # Asked for JSON alone, because it answers with an event stream whenever the client takes one.
        Contender(
            "chuk",
            interpreter,
            "chuk_server",
            revisions=(HANDSHAKE,),
            accept="application/json",
            needs_sessions=True,
        ),
        Contender("mcp lowlevel", interpreter, "mcp_lowlevel_server"),
        Contender("sse-starlette", interpreter, "sse_server", calls=False, listens=True),
    ]
