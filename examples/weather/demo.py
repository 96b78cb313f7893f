"""A host for the weather server: start it, send MCP requests over its pipes, and print the responses.

python demo.py          with the bundled sample data
python demo.py --live   with the National Weather Service
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from base64 import b64decode
from pathlib import Path
from textwrap import fill
from typing import Any

SERVER = Path(__file__).with_name("server.py")
DENVER = {"latitude": 39.7392, "longitude": -104.9903}
DEADLINE = 60.0  # seconds for the whole conversation


class DemoError(Exception):
    """The server did not respond as a host expects."""


class Host:
    """The two pipes of a host: one JSON-RPC message a line."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.stdin, self.stdout = process.stdin, process.stdout
        self.requests = 0
        self.progress: list[str] = []

    def send(self, message: dict[str, Any]) -> None:
        """Write a message."""
        self.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def request(self, method: str, **params: Any) -> Any:
        """Send a request and return its result; collect progress notifications before it."""
        self.requests += 1
        self.send({"id": self.requests, "method": method, "params": params})
        while line := await self.stdout.readline():
            message = json.loads(line)
            if message.get("method") == "notifications/progress":
                self.progress.append(message["params"]["message"])
            elif message.get("id") == self.requests:
                if "error" in message:
                    raise DemoError(f"{method}: {message['error']['message']}")
                return message["result"]
        raise DemoError(f"{method}: the server ended without an answer")

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool and return its result."""
        meta = {"progressToken": name}
        result = await self.request("tools/call", name=name, arguments=arguments, _meta=meta)
        if result.get("isError"):
            raise DemoError(f"{name}: {result['content'][0]['text']}")
        return result


def heading(text: str) -> None:
    """Print the heading of a section."""
    print(f"\n{text}\n{'-' * len(text)}")


async def offers(host: Host) -> None:
    """Print the components of the server, one a line."""
    info = await host.request(
        "initialize",
        protocolVersion="2025-11-25",
        capabilities={},
        clientInfo={"name": "weather-demo", "version": "1.0.0"},
    )
    host.send({"method": "notifications/initialized"})
    server = info["serverInfo"]
    heading(f"{server['name']} {server['version']}, MCP {info['protocolVersion']}")
    for method, member, name in [
        ("tools/list", "tools", "name"),
        ("resources/list", "resources", "uri"),
        ("resources/templates/list", "resourceTemplates", "uriTemplate"),
        ("prompts/list", "prompts", "name"),
    ]:
        for item in (await host.request(method))[member]:
            kind = {"resourceTemplates": "template"}.get(member, member.rstrip("s"))
            print(f"{kind:9} {item[name]:34} {item['title']}")


async def forecast(host: Host) -> None:
    """Print the forecast as a table, and the size of its plot."""
    data = (await host.call("get_forecast", DENVER))["structuredContent"]
    heading(f"Forecast for {data['place']} (source: {data['source']})")
    print("progress:", " -> ".join(host.progress))
    for period in data["periods"]:
        rain = "" if period["rain_chance"] is None else f"{period['rain_chance']} %"
        wind = f"{period['wind_from']} {period['wind']}"
        print(f"{period['name']:16} {period['temperature']:4} °F {rain:>5}  {wind:15} {period['summary']}")
    _, image = (await host.call("plot_temperatures", DENVER))["content"]
    print(f"plot_temperatures: {image['mimeType']}, {len(b64decode(image['data'], validate=True)):,} bytes")


async def alerts(host: Host) -> None:
    """Print the alerts with their instructions."""
    data = (await host.call("get_alerts", {"state": "CO"}))["structuredContent"]
    heading(f"Alerts in {data['state']}: {len(data['alerts']) or 'none'} (source: {data['source']})")
    for alert in data["alerts"]:
        print(
            f"{alert['severity'].upper():9} {alert['event']}, until {alert['expires'][:16].replace('T', ' ')}"
        )
        print(fill(alert["area"], 100, initial_indent=" " * 10, subsequent_indent=" " * 10))
        if alert["instruction"]:
            print(fill(alert["instruction"], 100, initial_indent=" " * 10, subsequent_indent=" " * 10))


async def the_rest(host: Host) -> None:
    """Print a resource, a completion and a prompt."""
    heading("And also")
    contents = (await host.request("resources/read", uri="weather://stations/KDEN"))["contents"]
    print("resource  ", json.loads(contents[0]["text"])["name"])
    completion = (
        await host.request(
            "completion/complete",
            ref={"type": "ref/prompt", "name": "plan_trip"},
            argument={"name": "state", "value": "new"},
        )
    )["completion"]
    print("completion", "new... ->", ", ".join(completion["values"]))
    trip = {"city": "Denver", "state": "CO", "days": "2"}
    prompt = await host.request("prompts/get", name="plan_trip", arguments=trip)
    text = prompt["messages"][0]["content"]["text"]
    print(fill(text, 100, initial_indent="prompt     ", subsequent_indent=" " * 11))


async def converse(options: list[str]) -> None:
    """Start the server as a host does, send all requests, and close its input, which stops it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SERVER), *options, stdin=PIPE, stdout=PIPE, limit=2**24
    )
    try:
        host = Host(process)
        await offers(host)
        await forecast(host)
        await alerts(host)
        await the_rest(host)
        host.stdin.close()
        if status := await process.wait():
            raise DemoError(f"the server ended with status {status}")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def main() -> int:
    """Run the demo and return the exit status: 0 if every request succeeded."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--live", action="store_true", help="ask the National Weather Service")
    options = [] if parser.parse_args().live else ["--sample"]
    try:
        asyncio.run(asyncio.wait_for(converse(options), DEADLINE))
    except DemoError as error:
        print(f"\nFAILED: {error}", file=sys.stderr)
        return 1
    except asyncio.TimeoutError:
        print(f"\nFAILED: no end within {DEADLINE:g} seconds", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
