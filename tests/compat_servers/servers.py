"""The published servers that are compared; `servers.json` has them, and what is requested of each."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Calls = Sequence[tuple[str, Mapping[str, Any]]]


ROOT_FOLDER = Path(__file__).parents[2]


INSTALLED = ROOT_FOLDER / ".compat"


@dataclass(frozen=True)
class Server:
    """A server.

    Attributes:
        name: Its package; `requirements/` pins the versions of it and of all that it needs.
        chosen_for: What it stands for.
        calls: Tools and their arguments, in the order in which they are called: `{work}` is the folder of the server.
        kind: The library that it imports.
        command: A script of its environment, and arguments; by default its name.
        reads: URIs beside those that are listed.
        prompts: Arguments of prompts, where made-up ones are of little use.
        left_alone: Tools that are not called with made-up arguments: they would install something, or wait.
        settings: Environment variables.
        http: The arguments of a server over HTTP with `{port}`; empty if it has none.
        path: Its path over HTTP.
        http_settings: Further environment variables over HTTP.
        is_held_out: It ran under mcpkit only once the layer was complete.
        without_library: It runs under mcpkit where `mcp` is not installed, too.
        differs: Reasons of differences, by a regular expression for request and place.
    """

    name: str
    chosen_for: str
    calls: Calls = ()
    kind: str = "`mcp.server.fastmcp`"
    command: str = ""
    reads: Sequence[str] = ()
    prompts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    left_alone: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    http: str = ""
    path: str = "/mcp"
    http_settings: Mapping[str, str] = field(default_factory=dict)
    is_held_out: bool = False
    without_library: bool = False
    differs: Mapping[str, str] = field(default_factory=dict)


DIFFERS = {
    r"error\..*(-32602|Invalid request parameters\"|\"\") / (-32601|\"Method not found.*|\"\(absent\))": (
        "For a method that the server does not have, `mcp` 1.x sends invalid params (-32602), mcpkit "
        "method not found (-32601), as JSON-RPC requires."
    ),
    r'error.*: ("Method not found" / "Method not found: |"(resources/subscribe|no/such)" / )': (
        "mcpkit's message for an unknown method has the name of the method."
    ),
}


"""What is otherwise with every server, and why."""


FASTMCP_4 = {
    r"^(initialize|tools/list|no such (tool|prompt)|read what is not there|logging/setLevel|prompt with nothing)": (
        "`mcpkit.compat` shows what `fastmcp` 4 shows. This server has `fastmcp` 2 or 3, which differ from it: in "
        "capabilities, `_meta`, titles and descriptions, the codes and texts of errors, and their own version."
    ),
    r"^read resource://telemetry": "The server lists its tools by how long they took.",
}


def _load() -> Iterator[Server]:
    """Read the table; the reasons above hold for servers of fastmcp 2 and 3."""
    for each in json.loads(Path(__file__).with_suffix(".json").read_text("utf-8")):
        is_older = each.get("kind") in {"`fastmcp` 2", "`fastmcp` 3"}
        yield Server(**each, differs=FASTMCP_4 if is_older else {})


SERVERS = [*_load()]
