"""Calls of methods of a server without a client, and values that it rejects; prints all results."""

import asyncio
import inspect
import json
import logging
import warnings
from typing import Any

import everything
import pydantic
from mcp.server.auth.provider import TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.fastmcp import Context, FastMCP, Icon
from mcp.server.fastmcp.prompts import Prompt, PromptManager
from mcp.server.fastmcp.prompts.base import Message, UserMessage
from mcp.server.fastmcp.resources import FunctionResource, Resource, ResourceManager, ResourceTemplate
from mcp.server.fastmcp.resources.types import FileResource, TextResource
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import Annotations, TextContent
from pydantic import BaseModel

warnings.simplefilter("ignore")
said: dict[str, Any] = {}


def plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return {type(value).__name__: plain(dict(value))}
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(plain, value)]
    if hasattr(value, "__dataclass_fields__"):
        return plain(vars(value))
    if callable(value):
        return "function"
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def note(name: str, make: Any) -> None:
    """Store a result or an error."""
    try:
        result = make()
        said[name] = plain(asyncio.run(result) if inspect.iscoroutine(result) else result)
    except pydantic.ValidationError as error:
        details = sorted((str(each["loc"]), each["type"], each["msg"]) for each in error.errors())
        said[name] = ["invalid", error.title, details]
    except Exception as error:
        said[name] = [type(error).__name__, str(error)]


class Verifier(TokenVerifier):
    async def verify_token(self, token: str) -> None: ...


auth = AuthSettings(issuer_url="https://issuer.example.com", resource_server_url="https://example.com/mcp")

# Constructing

for name, options in {
    "nothing": {},
    "host": {"host": "0.0.0.0", "port": "9000"},
    "host ::1": {"host": "::1"},
    "security": {"transport_security": TransportSecuritySettings(allowed_hosts=["a:*"])},
    "log_level": {"log_level": "info"},
    "dependencies": {"dependencies": {"a"}},
    "dependencies of another type": {"dependencies": 3},
    "lifespan": {"lifespan": 3},
    "token_verifier": {"token_verifier": Verifier()},
    "auth": {"auth": auth},
    "auth and verifier": {"auth": auth, "token_verifier": Verifier()},
    "auth of another type": {"auth": 3},
    "instructions": {
        "instructions": "Use it.",
        "icons": [Icon(src="x")],
        "website_url": "https://example.com",
    },
    "json": {"warn_on_duplicate_tools": False, "json_response": "yes", "stateless_http": 1},
    "max_sessions": {"max_sessions": None},
}.items():

    def made() -> Any:
        mcp = FastMCP("server", **options)
        settings = {key: value for key, value in dict(mcp.settings).items() if key != "auth"}
        settings["auth"] = mcp.settings.auth is not None and str(mcp.settings.auth.issuer_url)
        return [settings, mcp.name, mcp.instructions, mcp.website_url, mcp.icons, mcp.dependencies]

    note(f"FastMCP({name})", made)

note("no name", lambda: FastMCP().name)
note("positional", lambda: FastMCP[dict]("x", "How", "https://example.com").website_url)

mcp = FastMCP("direct")


def assign() -> list[Any]:
    mcp.settings.port, mcp.settings.log_level = 9000, "DEBUG"
    return [mcp.settings.port, mcp.settings.log_level]


note("settings", assign)
note("settings unknown", lambda: setattr(mcp.settings, "unknown", 1))
note("name assigned", lambda: setattr(mcp, "name", 1))
note("session_manager", lambda: mcp.session_manager)
note("run", lambda: mcp.run("http"))
note("run nothing", lambda: mcp.run(transport=None))

# Decorators


def function(a: int, b: str = "b") -> str:
    """Does it."""
    return f"{a}{b}"


for name, make in {
    "tool": lambda: mcp.tool(function),
    "resource": lambda: mcp.resource(function),
    "prompt": lambda: mcp.prompt(function),
    "tool tags": lambda: mcp.tool(tags={"a"}),
    "custom_route": lambda: mcp.custom_route("/x"),
    "resource mismatch": lambda: mcp.resource("a://{x}")(lambda x, y: 1),
    "resource without": lambda: mcp.resource("a://b")(function),
    "resource unused": lambda: mcp.resource("a://{a}")(lambda: 1),
    "resource mime": lambda: mcp.resource("a://b", mime_type="bad")(asyncio.sleep),
    "resource mime type": lambda: mcp.resource("a://mime", name="m", mime_type="no slash")(lambda: 1),
    "resource no uri": lambda: mcp.resource("no uri", name="m")(lambda: 1),
    "resource lambda": lambda: mcp.resource("a://b")(lambda: 1),
    "prompt lambda": lambda: mcp.prompt()(lambda: 1),
    "tool lambda": lambda: mcp.tool()(lambda: 1),
    "remove_tool": lambda: mcp.remove_tool("none"),
    "tool positional": lambda: mcp.tool("second", "A title", "Said")(function) is function,
    "prompt positional": lambda: mcp.prompt("second", "A title", "Said")(function) is function,
    "remove": lambda: mcp.remove_tool("second"),
    "file": lambda: FileResource(uri="file:///x", path="relative"),
    "text": lambda: TextResource(uri="no uri", text="x"),
    "text mime": lambda: TextResource(uri="x://y", text="x", mime_type="no"),
    "text nothing": lambda: TextResource(text="x"),
    "resource abstract": lambda: Resource(uri="x://y"),
    "uri": lambda: mcp.add_resource(TextResource(uri="HTTP://Example.com", text="x", icons=[Icon(src="s")])),
    "message": lambda: Message("hello"),
    "message role": lambda: Message("hello", role="system"),
    "message content": lambda: UserMessage(7),
    "security": lambda: TransportSecuritySettings(),
}.items():
    note(f"refused {name}", make)

# Direct calls

served = everything.mcp

for name, make in {
    "list_tools": served.list_tools,
    "call_tool": lambda: served.call_tool("named tool", {"n": "1"}),
    "call_tool with context": lambda: served.call_tool("speak", {"text": "x"}),
    "call_tool fails": lambda: served.call_tool("fails", {"how": "tool"}),
    "call_tool unknown": lambda: served.call_tool("unknown", {}),
    "call_tool invalid": lambda: served.call_tool("speak", {}),
    "list_resources": served.list_resources,
    "list_resource_templates": served.list_resource_templates,
    "read_resource": lambda: served.read_resource("config://text"),
    "read_resource url": lambda: served.read_resource(pydantic.AnyUrl("config://app")),
    "read_resource fails": lambda: served.read_resource("config://broken"),
    "read_resource template": lambda: served.read_resource("greeting://Ada"),
    "read_resource template invalid": lambda: served.read_resource("sum://one/2"),
    "read_resource unknown": lambda: served.read_resource("config://unknown"),
    "list_prompts": served.list_prompts,
    "get_prompt": lambda: served.get_prompt("review", {"code": "q"}),
    "get_prompt missing": lambda: served.get_prompt("review"),
    "get_prompt unknown": lambda: served.get_prompt("unknown"),
    "context": lambda: [mcp.get_context().fastmcp is mcp, type(mcp.get_context()).__name__],
    "context request": lambda: mcp.get_context().request_context,
    "context progress": lambda: mcp.get_context().report_progress(1),
    "context log": lambda: mcp.get_context().warning("x"),
    "context read": lambda: served.get_context().read_resource("config://text"),
    "context close": lambda: mcp.get_context().close_sse_stream(),
    "context none": lambda: Context().fastmcp,
    "context none read": lambda: Context().read_resource("x"),
    "context elicit": lambda: mcp.get_context().elicit("x", AuthSettings),
}.items():
    note(name, make)

# What it is made of

manager = ResourceManager()
resource = TextResource(uri="m://x", name="x", text="t")
manager.add_resource(resource)
note("ResourceManager", lambda: [manager.add_resource(resource) is resource, manager.list_resources()])
note("ResourceManager.get", lambda: manager.get_resource("m://x"))
note("ResourceManager.get none", lambda: manager.get_resource("m://y"))
options = {"description": "d", "mime_type": "text/x", "meta": {"a": 1}}
added = manager.add_template(lambda n: n * 2, "n://{n}", "double", **options)
note("add_template", lambda: [added.name, added.parameters, added.description, added.mime_type, added.meta])
note("matches", lambda: [added.matches("n://a"), added.matches("n://a/b"), added.matches("m://a")])
note("create_resource", lambda: added.create_resource("n://ab", {"n": "ab"}))


async def created() -> Any:
    return await (await manager.get_resource("n://ab")).read()


note("created", created)
note("templates", lambda: len(manager.list_templates()))
of = ResourceTemplate.from_function(
    function, uri_template="f://{a}/{b}", annotations=Annotations(priority=0.1)
)
note("ResourceTemplate", lambda: of)
note("FunctionResource", lambda: FunctionResource.from_function(lambda: 1, "l://x", name="l", title="T"))
note("FunctionResource lambda", lambda: FunctionResource.from_function(lambda: 1, "l://x"))
note("model_dump", lambda: resource.model_dump(mode="json"))
prompts = PromptManager()
prompt = Prompt.from_function(function, name="p", title="t")
note("Prompt", lambda: [prompt, prompt.model_dump()])
note("PromptManager", lambda: [prompts.add_prompt(prompt) is prompt, prompts.get_prompt("p") is prompt])
note("PromptManager again", lambda: prompts.add_prompt(Prompt.from_function(function, name="p")) is prompt)
note("render", lambda: prompt.render({"a": "1"}))
note("render invalid", lambda: prompt.render({"a": "x"}))
note("render_prompt", lambda: prompts.render_prompt("p", {"a": 1, "b": "c"}))
note("render_prompt unknown", lambda: prompts.render_prompt("q"))
note("list_prompts of manager", lambda: len(prompts.list_prompts()))
note("managers", lambda: [sorted(mcp._tool_manager._tools), sorted(mcp._resource_manager._resources)])
note("managers too", lambda: [sorted(mcp._resource_manager._templates), sorted(mcp._prompt_manager._prompts)])
handlers = sorted(each.__name__ for each in mcp._mcp_server.request_handlers)
note("low level", lambda: [each for each in handlers if each != "PingRequest"])
note("logging", lambda: [logging.getLogger().level, len(logging.getLogger().handlers)])


class Listed(FastMCP):
    async def list_tools(self):
        return [tool for tool in await super().list_tools() if tool.name != "hidden"]

    async def call_tool(self, name, arguments):
        return [TextContent(type="text", text=f"special {arguments}")]


listed = Listed("listed")
listed.tool()(function)
listed.tool(name="hidden")(function)
note("subclass lists", lambda: listed.list_tools())
note("subclass calls", lambda: listed.call_tool("special", {"a": 1}))

print(json.dumps(said), flush=True)
