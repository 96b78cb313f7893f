"""What type checkers know of calls and handlers: `mypy --strict` and pyright read this; nothing runs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel
from typing_extensions import TypedDict, assert_type

from mcpkit import Client, SyncClient
from mcpkit.client import (
    CallResult,
    FormRequest,
    RemoteTool,
    SampleRequest,
    SamplingHandler,
    SyncTool,
    UrlRequest,
)
from mcpkit.elicitation import ElicitationResult, Root, SamplingResult


@dataclass
class City:
    name: str


class Model(BaseModel):
    name: str


class Named(TypedDict):
    name: str


async def calls(client: Client) -> None:
    """A result has the type that was asked for."""
    assert_type(await client.call_tool("find"), CallResult)
    assert_type(await client.call_tool("find", {"name": "Oslo"}, timeout=3), CallResult)
    assert_type(await client.call_tool("find", result_type=City), City)
    assert_type(await client.call_tool("find", result_type=Model), Model)
    assert_type(await client.call_tool("find", result_type=Named), Named)
    assert_type(await client.call_tool("find", result_type=list[City]), list[City])
    assert_type(await client.call_tool("find", result_type=int), int)
    tools = await client.tools()
    assert_type(tools, dict[str, RemoteTool])
    assert_type(tools["find"].name, str)
    assert_type(tools["find"].output_schema, dict[str, Any] | None)


def waits(client: SyncClient) -> None:
    """The same without an event loop."""
    assert_type(client.call_tool("find"), CallResult)
    assert_type(client.call_tool("find", result_type=City), City)
    assert_type(client.tools(), dict[str, SyncTool])


async def fill_in(form: FormRequest) -> dict[str, str] | ElicitationResult[Any]:
    """Fill in a form."""
    assert_type(form.message, str)
    for field in form.fields:
        assert_type(field.is_required, bool)
        assert_type(field.kind, Literal["string", "integer", "number", "boolean", "choice", "choices"])
    return {"name": "Oslo"} if form.fields else form.decline()


def fill_in_at_once(form: FormRequest) -> City | None:
    """Fill in a form, without waiting."""
    return City("Oslo") if form.fields else None


async def visit(page: UrlRequest) -> bool:
    """Show a page."""
    assert_type(page.url, str)
    return bool(page.host)


def speak(request: SampleRequest) -> str:
    """Say something."""
    return request.text


async def speak_at_length(request: SampleRequest) -> SamplingResult | dict[str, Any] | None:
    """Say more."""
    return {"content": request.text} if request.tools else None


async def find() -> list[str | Path | Root]:
    """Find the roots."""
    return ["/srv", Path("/home"), Root("file:///tmp")]


def clients() -> list[Client]:
    """Handlers may be async, or not."""
    return [
        Client(
            "server.py",
            elicitation_handler=fill_in,
            url_elicitation_handler=visit,
            sampling_handler=speak,
            roots=["/srv", Path("/home")],
        ),
        Client(
            "server.py",
            elicitation_handler=fill_in_at_once,
            url_elicitation_handler=lambda page: None,
            sampling_handler=speak_at_length,
            roots=find,
        ),
        Client(
            "server.py",
            elicitation_handler=FormRequest.decline,
            sampling_handler=SamplingHandler(speak, tools=True),
            roots=list,
        ),
    ]
