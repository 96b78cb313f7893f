"""The server that the official conformance suite is run against: `python server.py PORT` serves /mcp on 127.0.0.1.

The names are the suite's. What its scenarios on skills call is not here; the suite skips them.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import wave
from typing import Annotated, Any

from asking import asking
from task_tools import tasks

from mcpkit import (
    Audio,
    Context,
    EmbeddedResource,
    Header,
    Image,
    Message,
    Prompt,
    Server,
    Tool,
    ToolError,
    user,
)

PAUSE = 0.05  # seconds between two reports, so that a client can tell them apart


def a_sound() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(16))
    return file.getvalue()


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SOUND = a_sound()
CONTACT_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

server = Server("conformance", version="1.0.0")


# The suite's header tests call the first tool that is listed, without arguments.
@server.tool
def test_simple_text() -> str:
    """Say a sentence."""
    return "This is a simple text response for testing."


@server.tool
def test_image_content() -> Image:
    """Show an image."""
    return Image(data=PIXEL)


@server.tool
def test_audio_content() -> Audio:
    """Play a sound."""
    return Audio(data=SOUND, mime_type="audio/wav")


@server.tool
def test_embedded_resource() -> EmbeddedResource:
    """Embed a resource."""
    return EmbeddedResource("test://embedded-resource", text="An embedded resource.", mime_type="text/plain")


@server.tool
def test_multiple_content_types() -> list[str | Image | EmbeddedResource]:
    """Mix text, an image and a resource."""
    resource = EmbeddedResource(
        "test://mixed-content-resource", text='{"mixed": true}', mime_type="application/json"
    )
    return ["Text, an image and a resource:", Image(data=PIXEL), resource]


@server.tool
def test_error_handling() -> None:
    """Fail."""
    raise ToolError("This tool always fails.")


@server.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress from 0 to 100."""
    for done in (0, 50, 100):
        await ctx.progress(done, 100, f"{done} of 100")
        await asyncio.sleep(PAUSE)
    return "Done."


@server.tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Write three log messages."""
    for message in ("started", "at work", "finished"):
        await ctx.info(message)
        await asyncio.sleep(PAUSE)
    return "Logged."


@server.tool
async def test_logging_tool(ctx: Context) -> str:
    """Write one log message."""
    await ctx.info("called")
    return "Logged, for a client that wants to hear of it."


@server.tool
async def test_reconnection(ctx: Context) -> str:
    """Close the stream of the call before its result, which the client fetches by reconnecting."""
    await ctx.close_stream()
    await asyncio.sleep(2 * PAUSE)
    return "Fetched by reconnecting."


@server.tool
def test_missing_capability(ctx: Context) -> str:
    """Need a client that samples."""
    ctx.client.require("sampling")
    return "The client samples."


@server.tool
def test_streaming_elicitation() -> str:
    """Answer in the response, where nothing can be asked of the client."""
    return "Nothing to ask."


@server.tool
async def test_trigger_tool_change() -> str:
    """Change the list of tools for a moment."""
    server.add(Tool(test_simple_text, name="test_momentary_tool"))
    server.tools.remove("test_momentary_tool")
    return "The list of tools has changed."


@server.tool
async def test_trigger_prompt_change() -> str:
    """Change the list of prompts for a moment."""
    server.add(Prompt(test_simple_prompt, name="test_momentary_prompt"))
    server.prompts.remove("test_momentary_prompt")
    return "The list of prompts has changed."


@server.tool(name="test_x_mcp_header")
def x_mcp_header(region: Annotated[str, Header("Region")] = "") -> str:
    """Take an argument that clients repeat in a header.

    Args:
        region: Any text.
    """
    return f"Region: {region or 'none'}"


@server.tool(input_schema=CONTACT_SCHEMA)
def json_schema_2020_12_tool(contact: dict[str, Any]) -> str:
    """Take arguments that an explicit schema describes."""
    return f"Got {', '.join(contact)}."


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """Hold a text."""
    return "The text of a resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """Hold an image."""
    return PIXEL


@server.resource("test://watched-resource", mime_type="text/plain")
def watched_resource() -> str:
    """Hold a text that clients subscribe to."""
    return "The text of a resource that is watched."


@server.resource("test://template/{id}/data", mime_type="application/json")
def template_data(id: str) -> dict[str, str]:
    """Hold the data of one id."""
    return {"id": id, "data": f"The data of {id}."}


@server.prompt
def test_simple_prompt() -> str:
    """Ask a question."""
    return "What does this prompt ask?"


@server.prompt(complete={"arg1": ["paris", "testValue1", "testValue2"]})
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Ask with two arguments.

    Args:
        arg1: The first one.
        arg2: The second one.
    """
    return f"The arguments are {arg1} and {arg2}."


@server.prompt
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Message]:
    """Ask about a resource that comes along.

    Args:
        resourceUri: The URI of the resource.
    """
    resource = EmbeddedResource(resourceUri, text="What the resource says.", mime_type="text/plain")
    return [user(resource), user("What does the resource say?")]


@server.prompt
def test_prompt_with_image() -> list[Message]:
    """Ask about an image that comes along."""
    return [user(Image(data=PIXEL)), user("What does the image show?")]


server.include(asking)
server.include(tasks)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument(
        "--http", choices=("h11", "httptools"), default="h11", help="what uvicorn parses HTTP with"
    )
    options = parser.parse_args()
    server.run("http", port=options.port, uvicorn={"http": options.http, "log_level": "warning"})
