"""The steps that are tried with each server, and their results."""

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcpkit import Client
from tests.helpers.processes import open_resources

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
    """The steps for one server; None for those that it does not support.

    Attributes:
        call: An ordinary tool.
        uri: A resource; empty for the first that is listed, where there is one.
        prompt: A prompt, with its arguments.
        ask: Tools that ask, by what they ask for.
        change: What is watched, and a call that changes it.
        progress: A call that reports progress three times.
        wait: A call that takes a minute, and reports progress soon.
        stopped: A tool that counts cancelled calls.
    """

    call: Call
    uri: str = ""
    prompt: tuple[str, Mapping[str, str]] | None = None
    ask: Mapping[str, Call] = field(default_factory=dict)
    change: tuple[Mapping[str, Any], Call] | None = None
    progress: Call | None = None
    wait: Call | None = None
    stopped: str | None = None


async def attempt(action: Callable[[], Awaitable[str]]) -> str:
    """Return the result of an action, or the reason of its failure, which begins with "no"."""
    try:
        return await asyncio.wait_for(action(), DEFAULT_TIMEOUT)
    except asyncio.TimeoutError:
        return f"no: nothing came within {DEFAULT_TIMEOUT:g} s"
    except Exception as error:
        return f"no: {type(error).__name__}: {error}"


async def travel(target: Any, kit: Kit, revision: str | None) -> dict[str, str]:
    """Connect to a server, try everything, close the client, and return the result of each column."""

    async def fill_in(*_: Any) -> dict[str, Any]:
        return {"name": NAME}

    async def complete(*_: Any) -> str:
        return CAPITAL

    before = owned()
    client = Client(
        target,
        protocol_version=revision,
        elicitation_handler=fill_in,
        sampling_handler=complete,
        roots=[ROOT],
        stderr=subprocess.DEVNULL if isinstance(target, dict) else None,
    )
    try:
        await asyncio.wait_for(client.__aenter__(), 2 * DEFAULT_TIMEOUT)
    except Exception as error:
        return {"revision": f"no: {type(error).__name__}: {error}"}
    results = {"revision": client.protocol_version, "why": client.protocol_version_reason}
    for column, step in steps(client, kit).items():
        results[column] = await attempt(step)
    begin = time.monotonic()
    results["close"] = await attempt(client.close) or "under 1 s"
    seconds = time.monotonic() - begin
    if seconds >= 1 and results["close"] == "under 1 s":
        results["close"] = f"{seconds:.0f} s"
    deadline = time.monotonic() + 2  # for what is about to end
    while owned() - before and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    if left := owned() - before:
        results["close"] = f"no: left over: {sorted(left)}"
    return results


def owned() -> set[str]:
    """Return the child processes, descriptors and tasks of this process."""
    threads_of_asyncio = {each for each in open_resources() if each.startswith("thread ")}
    return open_resources() - threads_of_asyncio | {f"task {task.get_name()}" for task in asyncio.all_tasks()}


def steps(client: Client, kit: Kit) -> dict[str, Callable[[], Awaitable[str]]]:
    """Return the steps by column."""

    async def lists() -> str:
        tools = await client.list_tools()
        declared = client.server_capabilities
        resources = await client.list_resources() if "resources" in declared else []
        templates = await client.list_resource_templates() if "resources" in declared else []
        prompts = await client.list_prompts() if "prompts" in declared else []
        return f"{len(tools)}, {len(resources)}, {len(templates)}, {len(prompts)}"

    async def call(expected: Call | None) -> str:
        if expected is None:
            return NONE
        result = await client.call_tool(expected.tool, dict(expected.arguments))
        text = result.text or str(result.structured_content)
        return "yes" if expected.answer in text and not result.is_error else f"no: {text[:200]}"

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

    async def progress() -> str:
        if kit.progress is None:
            return NONE
        received: list[float] = []
        arguments = dict(kit.progress.arguments)
        await client.call_tool(kit.progress.tool, arguments, progress=lambda done, *_: received.append(done))
        return "yes" if received == sorted(received) and len(received) == 3 else f"no: received {received}"

    return {
        "lists": lists,
        "call": lambda: call(kit.call),
        "read": read,
        "prompt": prompt,
        "elicitation": lambda: call(kit.ask.get("elicitation")),
        "sampling": lambda: call(kit.ask.get("sampling")),
        # Some servers request roots once after the handshake, and use them later.
        "roots": lambda: poll(lambda: call(kit.ask.get("roots")), 3 if "roots" in kit.ask else 0),
        "progress": progress,
        "changes": lambda: subscribe(client, kit),
        "cancel": lambda: cancel(client, kit),
    }


async def subscribe(client: Client, kit: Kit) -> str:
    """Subscribe to something, have it changed, and receive the notification."""
    if kit.change is None:
        return NONE
    watched, changing = kit.change
    kind, capability = (
        ("tools", "listChanged") if "tools_list_changed" in watched else ("resources", "subscribe")
    )
    if not client.server_capabilities[kind].get(capability):
        return NONE
    async with client.listen(**watched) as changes:
        await client.call_tool(changing.tool, dict(changing.arguments))
        async for change in changes:
            return f"no: {change}" if change.may_have_missed else "yes"
    return "no: the subscription has ended"


async def cancel(client: Client, kit: Kit) -> str:
    """Cancel a call that has begun, and check whether the server stopped it, and serves the next call."""
    if kit.wait is None:
        return NONE
    begun = asyncio.Event()
    call = asyncio.create_task(
        client.call_tool(kit.wait.tool, dict(kit.wait.arguments), progress=lambda *_: begun.set())
    )
    # A call without progress has begun after a second.
    await asyncio.wait(
        (asyncio.create_task(begun.wait()), call), timeout=1, return_when=asyncio.FIRST_COMPLETED
    )
    begun.set()
    if call.done():
        return f"no: it ended: {call.result()!r}"
    call.cancel()
    await asyncio.wait((call,), timeout=DEFAULT_TIMEOUT)
    if not call.cancelled():
        return "no: the call went on"
    after = await client.call_tool(kit.call.tool, dict(kit.call.arguments))
    if kit.call.answer not in (after.text or str(after.structured_content)):
        return "no: the server is not what it was"
    tool = kit.stopped
    if tool is None:
        return "freed"

    async def count() -> str:
        return "yes" if (await client.call_tool(tool)).text not in ("", "0") else "freed"

    return await poll(count, 3)


async def poll(check: Callable[[], Awaitable[str]], seconds: float) -> str:
    """Repeat a check until it returns yes, for some seconds."""
    deadline = time.monotonic() + seconds
    while (result := await check()) != "yes" and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    return result
