"""What is tried with each server, and what is seen of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcpkit import Client

DEFAULT_TIMEOUT = 20.0
ROOT_FOLDER = Path(__file__).parents[2]
ROOT = ROOT_FOLDER.as_uri()
NAME, CAPITAL = "Ada", "Oslo"
NONE = "-"

Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """A call, and a text that its answer has to hold."""

    tool: str
    arguments: Arguments = field(default_factory=dict)
    answer: str = ""


@dataclass(frozen=True)
class Kit:
    """What there is to try: what a server does not have is None.

    Attributes:
        call: An ordinary tool.
        uri: A resource; empty for the first that is listed, where there is one.
        prompt: A prompt, with its arguments.
        ask: Tools that ask, by what they ask for.
        change: What is watched, and a call that changes it.
        progress: A call that tells three times how far it has come.
        wait: A call that takes a minute, and tells of progress soon.
        stopped: A tool that says how many calls have been cancelled.
    """

    call: Call
    uri: str = ""
    prompt: tuple[str, Mapping[str, str]] | None = None
    ask: Mapping[str, Call] = field(default_factory=dict)
    change: tuple[Mapping[str, Any], Call] | None = None
    progress: Call | None = None
    wait: Call | None = None
    stopped: str | None = None


class Seen(dict[str, str]):
    """What has been seen, by column; what went wrong begins with "no"."""

    async def note(self, column: str, doing: Callable[[], Awaitable[str]]) -> None:
        """Do something, and note what it returns, or why it failed."""
        try:
            self[column] = await asyncio.wait_for(doing(), DEFAULT_TIMEOUT)
        except asyncio.TimeoutError:
            self[column] = f"no: nothing came within {DEFAULT_TIMEOUT:g} s"
        except Exception as error:
            self[column] = f"no: {type(error).__name__}: {error}"


async def travel(target: Any, kit: Kit, revision: str | None) -> Seen:
    """Connect to a server, try everything, leave, and look at what is left over."""
    seen = Seen()
    before = held()
    client = Client(
        target,
        protocol_version=revision,
        elicitation_handler=tell_name,
        sampling_handler=tell_capital,
        roots=[ROOT],
        stderr=subprocess.DEVNULL if isinstance(target, dict) else None,
    )
    try:
        await asyncio.wait_for(client.__aenter__(), 2 * DEFAULT_TIMEOUT)
    except Exception as error:
        seen["revision"] = f"no: {type(error).__name__}: {error}"
        return seen
    seen["revision"], seen["why"] = client.protocol_version, client.protocol_version_reason
    for column, step in steps(client, kit).items():
        await seen.note(column, step)
    await seen.note("close", lambda: close(client))
    if left := await left_over(before):
        seen["close"] = f"no: left over: {left}"
    return seen


async def close(client: Client) -> str:
    """Close the client, and say how long that took."""
    begin = time.monotonic()
    await client.close()
    seconds = time.monotonic() - begin
    return f"{seconds:.0f} s" if seconds >= 1 else "under 1 s"


async def tell_name(*_: Any) -> dict[str, Any]:
    """Fill in a form."""
    return {"name": NAME}


async def tell_capital(*_: Any) -> str:
    """Answer as a model."""
    return CAPITAL


def steps(client: Client, kit: Kit) -> dict[str, Callable[[], Awaitable[str]]]:
    """Return what is to be tried, by column."""

    async def lists() -> str:
        tools = await client.list_tools()
        declared = client.server_capabilities
        resources = await client.list_resources() if "resources" in declared else []
        templates = await client.list_resource_templates() if "resources" in declared else []
        prompts = await client.list_prompts() if "prompts" in declared else []
        return f"{len(tools)}, {len(resources)}, {len(templates)}, {len(prompts)}"

    async def call(expected: Call) -> str:
        result = await client.call_tool(expected.tool, dict(expected.arguments))
        said = result.text or str(result.structured_content)
        return "yes" if expected.answer in said and not result.is_error else f"no: {said[:200]}"

    async def read() -> str:
        uri = kit.uri
        if not uri:
            listed = await client.list_resources() if "resources" in client.server_capabilities else []
            if not listed:
                return NONE
            uri = listed[0]["uri"]
        contents = await client.read_resource(uri)
        return "yes" if contents and contents[0]["uri"] == uri else f"no: {contents}"

    async def prompt() -> str:
        if kit.prompt is None:
            return NONE
        messages = await client.get_prompt(*kit.prompt)
        return "yes" if messages and messages[0]["content"]["text"] else f"no: {messages}"

    def ask(what: str) -> Callable[[], Awaitable[str]]:
        async def asked() -> str:
            wanted = kit.ask.get(what)
            if wanted is None:
                return NONE
            # Some ask for roots once, when somebody has connected, and use them later.
            return await until_yes(lambda: call(wanted), 3 if what == "roots" else 0)

        return asked

    async def progress() -> str:
        if kit.progress is None:
            return NONE
        told: list[float] = []
        await client.call_tool(
            kit.progress.tool, dict(kit.progress.arguments), progress=lambda done, *_: told.append(done)
        )
        return "yes" if told == sorted(told) and len(told) == 3 else f"no: told {told}"

    return {
        "lists": lists,
        "call": lambda: call(kit.call),
        "read": read,
        "prompt": prompt,
        **{what: ask(what) for what in ("elicitation", "sampling", "roots")},
        "progress": progress,
        "changes": lambda: hear(client, kit),
        "cancel": lambda: cancel(client, kit),
    }


async def hear(client: Client, kit: Kit) -> str:
    """Watch something, have it changed, and hear of it."""
    if kit.change is None:
        return NONE
    watched, changing = kit.change
    declared = client.server_capabilities["resources" if "resources" in watched else "tools"]
    if not declared.get("subscribe" if "resources" in watched else "listChanged"):
        return NONE
    async with client.listen(**watched) as changes:
        await client.call_tool(changing.tool, dict(changing.arguments))
        async for change in changes:
            return f"no: {change}" if change.may_have_missed else "yes"
    return "no: the watch has ended"


async def cancel(client: Client, kit: Kit) -> str:
    """Give up a call that has begun, and see whether the server has heard of it, and serves on."""
    if kit.wait is None:
        return NONE
    begun = asyncio.get_running_loop().create_future()

    def tell(*_: Any) -> None:
        if not begun.done():
            begun.set_result(None)

    call = asyncio.create_task(client.call_tool(kit.wait.tool, dict(kit.wait.arguments), progress=tell))
    # What tells nothing of its progress has begun after a while.
    await asyncio.wait((begun, call), timeout=1, return_when=asyncio.FIRST_COMPLETED)
    if call.done():
        return f"no: it ended: {call.result()!r}"
    call.cancel()
    await asyncio.wait((call,), timeout=DEFAULT_TIMEOUT)
    if not call.cancelled():
        return "no: the call went on"
    after = await client.call_tool(kit.call.tool, dict(kit.call.arguments))
    if kit.call.answer not in (after.text or str(after.structured_content)):
        return "no: the server is not what it was"
    if kit.stopped is None:
        return "freed"
    tool = kit.stopped

    async def heard() -> str:
        return "yes" if (await client.call_tool(tool)).text not in ("", "0") else "freed"

    return await until_yes(heard, 3)


async def until_yes(look: Callable[[], Awaitable[str]], seconds: float) -> str:
    """Look again until the answer is yes, for some seconds."""
    deadline = time.monotonic() + seconds
    while (answer := await look()) != "yes" and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    return answer


def held() -> dict[str, set[str]]:
    """What this process holds: its children, its descriptors and its tasks."""
    descriptors = {f"{each.name} {link(each)}" for each in Path("/proc/self/fd").iterdir()}
    return {
        "processes": set(children(os.getpid())),
        "descriptors": {each for each in descriptors if "/proc/" not in each},
        "tasks": {task.get_name() for task in asyncio.all_tasks()},
    }


def link(descriptor: Path) -> str:
    """Where a descriptor leads; empty for the one that was open to look."""
    try:
        return os.readlink(descriptor)
    except OSError:
        return "/proc/"


def children(process: int) -> Iterator[str]:
    """All processes below one."""
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        for child in task.read_text().split():
            yield child
            yield from children(int(child))


async def left_over(before: Mapping[str, set[str]]) -> str:
    """Say what is held now that was not before; what is on its way to its end has two seconds."""
    deadline = time.monotonic() + 2
    while True:
        left = {kind: now - before[kind] for kind, now in held().items() if now - before[kind]}
        if not left or time.monotonic() > deadline:
            return ", ".join(f"{kind} {sorted(which)}" for kind, which in left.items())
        await asyncio.sleep(0.05)
