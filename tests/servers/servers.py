"""The servers that are tried: where they come from, how they are started, and what there is to try."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from journey import CAPITAL, NAME, ROOT, ROOT_FOLDER, Call, Kit

INSTALLED = ROOT_FOLDER / ".servers"
PEERS = Path(__file__).parent / "peers"
HANDSHAKE = "2025-11-25"
BOTH = (None, HANDSHAKE)
"""The version that the client finds, and a given one."""


@dataclass(frozen=True)
class Server:
    """A server, or a library with a server in `peers/`.

    Attributes:
        name: What it is called.
        origin: Where it is installed: a package of npm, or the folder of an environment, and its package.
        command: Starts it over a transport; a port is added over HTTP, unless it reads that from `PORT`.
        kit: What there is to try.
        transports: Which it speaks.
        revisions: Which are tried; None is what the client finds out.
        settings: Its environment variables.
        differs: What is otherwise than a reader would expect, and not the client's doing: by column, and by
            transport or revision where it is so in some alone. Whatever else differs is a failure.
    """

    name: str
    origin: tuple[str, str]
    command: Callable[[str], Sequence[str]]
    kit: Kit
    transports: Sequence[str] = ("stdio",)
    revisions: Sequence[str | None] = (None,)
    settings: Mapping[str, str] = field(default_factory=dict)
    differs: Mapping[str, str] = field(default_factory=dict)


def npm(name: str, *arguments: str) -> Callable[[str], Sequence[str]]:
    """Return the command of a reference server of npm."""
    script = INSTALLED / "node_modules" / "@modelcontextprotocol" / name / "dist" / "index.js"
    return lambda transport: ["node", str(script), *arguments]


EVERYTHING = {"stdio": "stdio", "http": "streamableHttp", "sse": "sse"}


def python(environment: str) -> str:
    """Return the interpreter of an environment."""
    return str(INSTALLED / environment / ("Scripts" if sys.platform == "win32" else "bin") / "python")


def peer(environment: str, file: str) -> Callable[[str], Sequence[str]]:
    """Return what starts a server of `peers/`."""
    runtime, place = (python(environment), PEERS) if file.endswith(".py") else ("node", INSTALLED)
    return lambda transport: [runtime, str(place / file), transport]


STUBBORN = "It goes on with the call that was given up, and is ended with SIGTERM after two seconds."
ASKS = {
    "elicitation": Call("ask_name", answer=NAME),
    "sampling": Call("ask_model", answer=CAPITAL),
    "roots": Call("ask_roots", answer=ROOT),
}
LIBRARY = Kit(
    Call("add", {"first": 40, "second": 2}, "42"),
    uri="note://hello",
    prompt=("greet", {"name": NAME}),
    ask=ASKS,
    change=({"tools_list_changed": True}, Call("change")),
    progress=Call("wait", {"seconds": 0}),
    wait=Call("wait", {"seconds": 60}),
    stopped="count_stopped",
)


def servers(work: Path) -> list[Server]:
    """Return all servers.

    Args:
        work: An empty folder, for what they read and write; there is a repository of Git in `repository`.
    """
    return [
        Server(
            "everything",
            ("npm", "@modelcontextprotocol/server-everything"),
            lambda transport: [*npm("server-everything")(transport), EVERYTHING[transport]],
            Kit(
                Call("get-sum", {"a": 40, "b": 2}, "42"),
                prompt=("args-prompt", {"city": CAPITAL}),
                ask={
                    "elicitation": Call("trigger-elicitation-request", answer=f"Name: {NAME}"),
                    "sampling": Call("trigger-sampling-request", {"prompt": "The capital?"}, CAPITAL),
                    "roots": Call("get-roots-list", answer=ROOT),
                },
                change=(
                    {"resource_subscriptions": "demo://resource/dynamic/text/1"},
                    Call("toggle-subscriber-updates"),
                ),
                progress=Call("trigger-long-running-operation", {"duration": 0.3, "steps": 3}),
                wait=Call("trigger-long-running-operation", {"duration": 60, "steps": 600}),
            ),
            ("stdio", "http", "sse"),
            differs={"close, stdio": STUBBORN},
        ),
        Server(
            "filesystem",
            ("npm", "@modelcontextprotocol/server-filesystem"),
            npm("server-filesystem", str(work)),
            Kit(
                Call("list_allowed_directories", answer="Allowed"),
                # It serves the client's roots instead of the folder in its arguments.
                ask={
                    "roots": Call("read_text_file", {"path": str(ROOT_FOLDER / "package.json")}, "mcpkit-dev")
                },
            ),
        ),
        Server(
            "memory",
            ("npm", "@modelcontextprotocol/server-memory"),
            npm("server-memory"),
            Kit(Call("create_entities", {"entities": [ENTITY]}, NAME)),
            settings={"MEMORY_FILE_PATH": str(work / "memory.jsonl")},
        ),
        Server(
            "time",
            ("reference", "mcp-server-time"),
            lambda _: [python("reference"), "-m", "mcp_server_time"],
            Kit(Call("convert_time", TIME, "21:00")),
            revisions=BOTH,
        ),
        Server(
            "git",
            ("reference", "mcp-server-git"),
            lambda _: [python("reference"), "-m", "mcp_server_git"],
            Kit(Call("git_status", {"repo_path": str(work / "repository")}, "branch")),
            revisions=BOTH,
        ),
        Server("mcp 2", ("mcp2", "mcp"), peer("mcp2", "mcp_2.py"), LIBRARY, ("stdio", "http", "sse"), BOTH),
        Server("mcp 1", ("mcp1", "mcp"), peer("mcp1", "mcp_1.py"), LIBRARY, ("stdio", "http", "sse")),
        Server(
            "fastmcp 4",
            ("fastmcp", "fastmcp"),
            peer("fastmcp", "fastmcp_4.py"),
            replace(LIBRARY, ask={"elicitation": ASKS["elicitation"]}),
            ("stdio", "http", "sse"),
            BOTH,
        ),
        Server(
            "TypeScript 2",
            ("npm", "@modelcontextprotocol/server"),
            peer("", "typescript_2.mjs"),
            LIBRARY,
            ("stdio", "http"),
            BOTH,
            differs=dict.fromkeys(
                (f"{what}, http, {HANDSHAKE}" for what in (*ASKS, "changes")),
                "Its HTTP handler has no sessions for clients of the handshake: it cannot send requests, nor changes.",
            ),
        ),
    ]


TIME = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
ENTITY = {"name": NAME, "entityType": "person", "observations": ["wrote the first program"]}
