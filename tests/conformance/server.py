"""The server that the official conformance suite is run against: `python server.py PORT [PARSER]`.

The names are the suite's. What its scenarios on skills call is not here; the suite skips them.
"""

import asyncio
import base64
import sys
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import uvicorn
from pydantic import BaseModel, Field

from mcpkit import (
    Ask,
    Audio,
    Context,
    EmbeddedResource,
    Image,
    Message,
    Prompt,
    ProtocolError,
    Registry,
    Server,
    Task,
    Tool,
    ToolError,
    user,
)
from mcpkit.elicitation import ElicitRequest, ListRootsRequest, SamplingRequest
from mcpkit.extensions import ParamHeader

PAUSE = 0.05  # seconds between two reports, so that a client can tell them apart


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SOUND = b"RIFF\x34\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\x10\0\0\0" + bytes(
    16
)
TEXT = {"type": "string"}
CONTACT_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {"$anchor": "addressDef", "type": "object", "properties": {"street": TEXT, "city": TEXT}}
    },
    "properties": {
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        **dict.fromkeys(("name", "phone", "email"), TEXT),
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


RESOURCE = EmbeddedResource("test://embedded-resource", text="An embedded resource.", mime_type="text/plain")
server.tool(lambda: Image(data=PIXEL), name="test_image_content", description="Show an image.")
server.tool(
    lambda: Audio(data=SOUND, mime_type="audio/wav"), name="test_audio_content", description="Play a sound."
)
server.tool(lambda: RESOURCE, name="test_embedded_resource", description="Embed a resource.")
server.tool(
    lambda: "Nothing to ask.", name="test_streaming_elicitation", description="Answer without questions."
)


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
        await ctx.report_progress(done, 100, f"{done} of 100")
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
    return "Logged, for clients with a log level."


@server.tool
async def test_reconnection(ctx: Context) -> str:
    """Close the stream of the call before its result, which the client fetches by reconnecting."""
    await ctx.http.close_stream()
    await asyncio.sleep(2 * PAUSE)
    return "Fetched by reconnecting."


@server.tool
def test_missing_capability(ctx: Context) -> str:
    """Need a client that samples."""
    ctx.client.require("sampling")
    return "The client samples."


@server.tool
async def test_trigger_tool_change() -> str:
    """Change the list of tools for a moment."""
    server.include(Tool(test_simple_text, name="test_momentary_tool"))
    server.catalog.tools.remove("test_momentary_tool")
    return "The list of tools has changed."


@server.tool
async def test_trigger_prompt_change() -> str:
    """Change the list of prompts for a moment."""
    server.include(Prompt(test_simple_prompt, name="test_momentary_prompt"))
    server.catalog.prompts.remove("test_momentary_prompt")
    return "The list of prompts has changed."


@server.tool(name="test_x_mcp_header")
def x_mcp_header(region: Annotated[str, ParamHeader("Region")] = "") -> str:
    """Take an argument that clients repeat in a header.

    Args:
        region: Any text.
    """
    return f"Region: {region or 'none'}"


@server.tool(input_schema=CONTACT_SCHEMA)
def json_schema_2020_12_tool(contact: dict[str, Any]) -> str:
    """Take arguments that an explicit schema describes."""
    return f"Got {', '.join(contact)}."


server.resource("test://static-text", name="static_text", mime_type="text/plain")(lambda: "A text.")
server.resource("test://static-binary", name="static_binary", mime_type="image/png")(lambda: PIXEL)
server.resource("test://watched-resource", name="watched", mime_type="text/plain")(lambda: "A watched text.")


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


# Requests to the client: elicitation, sampling and roots

asking = Registry()


@dataclass
class Account:
    username: str
    email: str


@dataclass
class Profile:
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


class Titled(Enum):
    ONE = "value1"
    TWO = "value2"
    THREE = "value3"

    @property
    def label(self) -> str:
        return self.name.capitalize()


Option = Literal["option1", "option2", "option3"]


class Choices(BaseModel):
    untitledSingle: Option
    titledSingle: Titled
    legacyEnum: Annotated[
        Literal["opt1", "opt2", "opt3"],
        Field(json_schema_extra={"enumNames": ["Option One", "Option Two", "Option Three"]}),
    ]
    untitledMulti: list[Option]
    titledMulti: list[Titled]


@dataclass
class Name:
    name: str


@dataclass
class Color:
    color: str


@dataclass
class Sure:
    ok: bool


@asking.tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Have the client's model answer.

    Args:
        prompt: What it is asked.
    """
    return f"LLM response: {(await ctx.sample(prompt, max_tokens=100)).text}"


@asking.tool
async def test_elicitation(message: str, ctx: Context) -> str:
    """Ask the user who they are.

    Args:
        message: What the user reads.
    """
    answer = await ctx.elicit(message, Account)
    return f"{answer.action}: {answer.value if answer else None}"


@asking.tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask with a form that is filled in already."""
    answer = await ctx.elicit("Check your profile", Profile)
    return f"{answer.action}: {answer.value if answer else None}"


@asking.tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask to choose, in each way there is."""
    answer = await ctx.elicit("Choose", Choices)
    return f"{answer.action}: {answer.value if answer else None}"


@asking.tool
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Ask for a name."""
    return f"Hello, {(await ctx.elicit('What is your name?', Name, key='user_name')).value.name}!"


@asking.tool
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Have the client's model answer."""
    return (await ctx.sample("What is the capital of France?", max_tokens=100)).text


@asking.tool
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Ask for the roots."""
    return ", ".join(root.uri for root in await ctx.list_roots())


@asking.tool
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Ask for consent."""
    return "state-ok" if (await ctx.elicit("Are you sure?", Sure)).value.ok else "refused"


@asking.tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask three things at once."""
    name, greeting, roots = await ctx.ask(
        ElicitRequest("What is your name?", Name),
        SamplingRequest("Say hello", max_tokens=50),
        ListRootsRequest(),
    )
    return f"{name.value.name}: {greeting.text} ({len(roots)} roots)"


@asking.tool
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask one thing after the other."""
    name = (await ctx.elicit("Step 1: your name?", Name, key="step1")).value.name
    color = (await ctx.elicit("Step 2: your colour?", Color, key="step2")).value.color
    return f"{name} likes {color}"


@asking.tool
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Ask for consent, and find out whether the state has been changed on its way."""
    return str((await ctx.elicit("Go on?", Sure)).value.ok)


@asking.tool
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask what the client can be asked."""
    questions: list[Any] = []
    if ctx.client.supports("elicitation"):
        questions.append(ElicitRequest("What is your name?", Name))
    if ctx.client.supports("sampling"):
        questions.append(SamplingRequest("Say hello", max_tokens=50))
    return f"{len(await ctx.ask(*questions))} answers"


@asking.prompt
async def test_input_required_result_prompt(ctx: Context) -> str:
    """Ask for the context of a prompt."""

    @dataclass
    class Setting:
        context: str

    return f"Given {(await ctx.elicit('Which context?', Setting)).value.context}, answer."


# Tasks

tasks = Registry()

JOB_TIME = 1.0  # seconds until a job fails, so that a client sees it working before


@dataclass
class Confirmation:
    confirm: bool


@dataclass
class Signature:
    name: str
    confirm: bool


@tasks.tool
def greet(name: str) -> str:
    """Greet a user at once.

    Args:
        name: Whom.
    """
    return f"Hello, {name}!"


@tasks.tool(task=True)
async def slow_compute(seconds: float, label: str = "") -> str:
    """Take some time.

    Args:
        seconds: How many seconds.
        label: What the result is called.
    """
    await asyncio.sleep(seconds)
    return f"{label or 'It'} took {seconds:g} s."


@tasks.tool(task=Task(required=True))
async def failing_job() -> None:
    """Work for a while, and fail."""
    await asyncio.sleep(JOB_TIME)
    raise ToolError("This job always fails.")


@tasks.tool(task=True)
async def protocol_error_job() -> None:
    """End with an error of the protocol."""
    raise ProtocolError(-32603, "This job always ends with an error of the protocol.")


@tasks.tool(task=True)
async def confirm_delete(filename: str, ctx: Context) -> str:
    """Delete nothing, after asking whether to.

    Args:
        filename: What would be deleted.
    """
    answer = await ctx.elicit(f"Delete {filename}?", Confirmation)
    return f"{filename} is {'deleted' if answer and answer.value.confirm else 'kept'}."


@tasks.tool(task=True)
async def multi_input(ctx: Context) -> str:
    """Ask two people at once."""
    signatures = await ctx.ask(
        ElicitRequest("Who signs first?", Signature), ElicitRequest("Who signs second?", Signature)
    )
    return f"Signed by {' and '.join(each.value.name for each in signatures)}."


@tasks.tool(task=Task(required=True))
async def test_tool_with_task(user: Annotated[Name, Ask("What is your name?", key="user_name")]) -> str:
    """Ask for a name before there is a task."""
    return f"Hello from the task, {user.name}!"


server.include(asking)
server.include(tasks)

if __name__ == "__main__":
    uvicorn.run(server.asgi(), port=int(sys.argv[1]), http=sys.argv[2] if len(sys.argv) > 2 else "auto")
