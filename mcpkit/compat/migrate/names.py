"""Tables of the names of version 1: one for each kind.

Names are qualified by the module from which they are imported. Names in no table stay unchanged and get a mark.
"""

from __future__ import annotations

from .shapes import Shape

_FASTMCP = "mcp.server.fastmcp"
_TYPES = "mcp.types"


def _in(*modules: str, **names: str) -> dict[str, str]:
    return {f"{module}.{name}": native for module in modules for name, native in names.items()}


SERVER_CLASSES = frozenset({f"{_FASTMCP}.FastMCP", f"{_FASTMCP}.server.FastMCP", "mcp.server.FastMCP"})
CONTEXT_CLASSES = frozenset({f"{_FASTMCP}.Context", f"{_FASTMCP}.server.Context"})
LOWLEVEL_CLASSES = frozenset(
    {"mcp.server.Server", "mcp.server.lowlevel.Server", "mcp.server.lowlevel.server.Server"}
)

RENAMED: dict[str, str] = {
    # name of version 1: name in mcpkit. Calls of some are rebuilt as well, see below.
    **dict.fromkeys(SERVER_CLASSES, "Server"),
    **dict.fromkeys(CONTEXT_CLASSES, "Context"),
    **_in(_FASTMCP, f"{_FASTMCP}.utilities.types", Image="Image", Audio="Audio"),
    f"{_FASTMCP}.Icon": "Icon",
    **_in(f"{_FASTMCP}.exceptions", ToolError="ToolError", ResourceError="ResourceError"),
    **_in(f"{_FASTMCP}.tools", f"{_FASTMCP}.tools.base", ToolError="ToolError"),
    **_in(
        f"{_FASTMCP}.prompts.base",
        Message="Message",
        UserMessage="user",
        AssistantMessage="assistant",
    ),
    **_in(f"{_FASTMCP}.prompts", Message="Message", UserMessage="user", AssistantMessage="assistant"),
    **_in(
        _TYPES,
        Icon="Icon",
        ToolAnnotations="ToolAnnotations",
        Annotations="Annotations",
        TextContent="Text",
        ImageContent="Image",
        AudioContent="Audio",
        EmbeddedResource="EmbeddedResource",
        ResourceLink="ResourceLink",
        CallToolResult="ToolResult",
        PromptMessage="Message",
        SamplingMessage="Message",
        CreateMessageResult="SamplingResult",
        Root="Root",
    ),
    **_in("mcp.shared.exceptions", "mcp", McpError="ProtocolError"),
    **_in(
        "mcp.server.elicitation",
        ElicitationResult="ElicitationResult",
        AcceptedElicitation="ElicitationResult",
        DeclinedElicitation="ElicitationResult",
        CancelledElicitation="ElicitationResult",
    ),
}

CONTENT: dict[str, Shape] = {
    f"{_TYPES}.TextContent": Shape(
        "Text",
        ("type", "text", "annotations", "_meta", "meta"),
        first=("text",),
        renamed={"_meta": "meta"},
        dropped=frozenset({"type"}),
    ),
    **{
        f"{_TYPES}.{name}Content": Shape(
            name,
            ("type", "data", "mimeType", "annotations", "_meta", "meta"),
            renamed={"mimeType": "mime_type", "_meta": "meta"},
            dropped=frozenset({"type"}),
            encoded=frozenset({"data"}),
        )
        for name in ("Image", "Audio")
    },
    f"{_TYPES}.ResourceLink": Shape(
        "ResourceLink",
        (
            "type",
            "uri",
            "name",
            "title",
            "description",
            "mimeType",
            "size",
            "icons",
            "annotations",
            "_meta",
            "meta",
        ),
        first=("uri", "name"),
        renamed={"mimeType": "mime_type", "_meta": "meta"},
        dropped=frozenset({"type"}),
        urls=frozenset({"uri"}),
    ),
    f"{_TYPES}.CallToolResult": Shape(
        "ToolResult",
        ("content", "structuredContent", "isError", "_meta", "meta"),
        first=("content",),
        renamed={"structuredContent": "structured", "isError": "is_error", "_meta": "meta"},
    ),
}
"""Content and results that differ only in the names of their arguments."""

RESOURCE_CONTENTS: dict[str, Shape] = {
    f"{_TYPES}.TextResourceContents": Shape(
        "EmbeddedResource",
        ("uri", "text", "mimeType", "_meta", "meta"),
        first=("uri",),
        renamed={"mimeType": "mime_type", "_meta": "meta"},
        urls=frozenset({"uri"}),
    ),
    f"{_TYPES}.BlobResourceContents": Shape(
        "EmbeddedResource",
        ("uri", "blob", "mimeType", "_meta", "meta"),
        first=("uri",),
        renamed={"mimeType": "mime_type", "_meta": "meta"},
        encoded=frozenset({"blob"}),
        urls=frozenset({"uri"}),
    ),
}
"""Contents of an `EmbeddedResource` in version 1, which are its own fields in mcpkit."""

FILES: dict[str, str] = {
    f"{module}.{name}": name.lower()
    for module in (_FASTMCP, f"{_FASTMCP}.utilities.types")
    for name in ("Image", "Audio")
}
"""Image and Audio of FastMCP, with `format=` as the subtype of a MIME type."""

SAID_MESSAGES: dict[str, str] = {
    f"{module}.{name}": native
    for module in (f"{_FASTMCP}.prompts.base", f"{_FASTMCP}.prompts")
    for name, native in (("UserMessage", "user"), ("AssistantMessage", "assistant"))
}
"""Message classes with a fixed role."""

ROLE_MESSAGES = frozenset(
    {
        f"{_TYPES}.PromptMessage",
        f"{_TYPES}.SamplingMessage",
        f"{_FASTMCP}.prompts.base.Message",
        f"{_FASTMCP}.prompts.Message",
    }
)
"""Message classes with the argument `role=`."""

ANSWER_CLASSES: dict[str, str] = {
    "mcp.server.elicitation.AcceptedElicitation": "accept",
    "mcp.server.elicitation.DeclinedElicitation": "decline",
    "mcp.server.elicitation.CancelledElicitation": "cancel",
}

CONTEXT_METHODS: dict[str, Shape] = {
    "report_progress": Shape("report_progress", ("progress", "total", "message"), first=("progress",)),
    **{
        level: Shape(level, ("message", "logger_name"), first=("message",), renamed={"logger_name": "logger"})
        for level in ("debug", "info", "warning", "error")
    },
    "log": Shape(
        "log",
        ("level", "message", "logger_name"),
        first=("level", "message"),
        renamed={"logger_name": "logger"},
    ),
    "elicit": Shape("elicit", ("message", "schema"), first=("message", "schema")),
    "elicit_url": Shape(
        "elicit_url",
        ("message", "url", "elicitation_id"),
        first=("message", "url"),
        dropped=frozenset({"elicitation_id"}),
    ),
    "close_sse_stream": Shape("http.close_stream", ()),
}
"""Methods of the Context, which are awaited."""

SESSION_METHODS: dict[str, Shape] = {
    "create_message": Shape(
        "sample",
        ("messages", "max_tokens", "system_prompt", "include_context", "temperature", "stop_sequences"),
        first=("messages",),
        renamed={"system_prompt": "system"},
        dropped=frozenset({"related_request_id"}),
    ),
    "elicit": Shape(
        "elicit",
        ("message", "requestedSchema", "related_request_id"),
        first=("message", "requestedSchema"),
        dropped=frozenset({"related_request_id"}),
    ),
    "send_log_message": Shape(
        "log",
        ("level", "data", "logger", "related_request_id"),
        first=("level", "data"),
        dropped=frozenset({"related_request_id"}),
    ),
}
"""Methods of the session that are methods of mcpkit's Context, which are awaited."""
SESSION_METHODS["elicit_form"] = SESSION_METHODS["elicit"]

ANNOUNCEMENTS = frozenset(
    {"send_tool_list_changed", "send_resource_list_changed", "send_prompt_list_changed"}
)
"""Methods of the session that mcpkit calls automatically."""

CONTEXT_PATHS: dict[str, str] = {
    "request_context.lifespan_context": "state",
    "request_context.request_id": "request_id",
    "request_context.meta": "meta",
    "request_context.request.headers": "headers",
    "session.client_params.clientInfo": "client",
    "fastmcp": "server",
}
"""Attributes of a Context by path; `request_context.session` counts as `session`."""

DECORATORS: dict[str, Shape] = {
    "tool": Shape(
        "tool",
        ("name", "title", "description", "annotations", "icons", "meta", "structured_output"),
        dropped=frozenset({"structured_output"}),
    ),
    "add_tool": Shape(
        "tool",
        ("fn", "name", "title", "description", "annotations", "icons", "meta", "structured_output"),
        first=("fn",),
        dropped=frozenset({"structured_output"}),
    ),
    "resource": Shape("resource", ("uri",), first=("uri",)),
    "prompt": Shape("prompt", ("name", "title", "description", "icons")),
    "custom_route": Shape(
        "route",
        ("path", "methods", "name", "include_in_schema"),
        first=("path",),
        dropped=frozenset({"include_in_schema"}),
    ),
}
"""Methods of the server that register a function."""

CONSTRUCTOR = Shape(
    "Server",
    (
        "name",
        "instructions",
        "website_url",
        "icons",
        "auth_server_provider",
        "token_verifier",
        "event_store",
        "retry_interval",
    ),
    first=("name",),
    dropped=frozenset(
        {
            "debug",
            "json_response",
            "warn_on_duplicate_resources",
            "warn_on_duplicate_tools",
            "warn_on_duplicate_prompts",
            "sse_path",
            "message_path",
            "mount_path",
            "event_store",
            "retry_interval",
            "dependencies",
            "max_request_body_size",
            "max_sessions",
            "session_idle_timeout",
            "log_level",
        }
    ),
)

SERVED: dict[str, str] = {
    "host": "host",
    "port": "port",
    "stateless_http": "stateless",
    "streamable_http_path": "path",
}
"""Arguments of the constructor, and settings, that are arguments of `run` and `asgi`."""

DEFAULT_SETTINGS: dict[str, str] = {
    "host": '"127.0.0.1"',
    "port": "8000",
    "sse_path": '"/sse"',
    "message_path": '"/messages/"',
    "mount_path": '"/"',
    "streamable_http_path": '"/mcp"',
    "stateless_http": "False",
    "json_response": "False",
    "debug": "False",
    "log_level": '"INFO"',
}
"""Default settings of version 1."""

OF_THREADS = frozenset({"sqlite3.connect", "sqlite3.dbapi2.connect", "threading.local"})
"""Objects that belong to the thread that created them."""

HINTS: dict[str, str] = {
    "auth": "use Server(..., auth=Jwt(issuer)) with `from mcpkit.auth import Jwt`, see the page on authorization",
    "token_verifier": "pass a TokenVerifier of mcpkit.auth as auth=; its method is `verify`",
    "auth_server_provider": "use a separate authorization server: auth=Jwt(issuer)",
    "tools": "register these with tool(...) after the server is created",
    "max_request_body_size": "pass Server(limits=Limits(max_request_body_size=...))",
    "max_sessions": "pass Server(limits=Limits(max_sessions=...))",
    "session_idle_timeout": "pass Server(timeouts=Timeouts(session_idle=...))",
    "sse_path": "mcpkit serves this transport at /sse",
    "message_path": "mcpkit serves this transport at /messages",
    "mount_path": "mount the app that asgi() returns; it detects its prefix",
    "dependencies": "only `mcp install` reads these: list them in the dependencies of the project",
    "completion": "declare the completion at each argument: Annotated[str, Complete(function)]",
    "session_manager": "not needed: asgi() runs the lifespan",
    "read_resource": "call the function of the resource instead",
    "call_tool": "call the function of the tool instead, or mcpkit.testing.connect(server) in a test",
    "list_resources": "use `resources`, a mapping by URI",
    "list_prompts": "use `prompts`, a mapping by name",
    "list_resource_templates": "use `resource_templates`, a mapping by URI",
    "get_prompt": "call the function of the prompt instead, or mcpkit.testing.connect(server) in a test",
    "add_resource": "register a function: resource(uri)(function), or include(resource_dir(folder, uri))",
    "add_prompt": "register a function: prompt(function)",
    "_mcp_server": "mcpkit has no low-level server; use middleware to see every request",
    "_tool_manager": "use `tools`, a mapping by name",
    "_resource_manager": "use `resources` and `resource_templates`, mappings by URI",
    "_prompt_manager": "use `prompts`, a mapping by name",
    "set_logging_level": "not needed: mcpkit handles logging/setLevel",
    "subscribe_resource": "not needed: mcpkit handles subscriptions; watch= of a resource is called for each",
    "unsubscribe_resource": "not needed: mcpkit handles subscriptions; watch= of a resource is called for each",
    "settings": "mcpkit has no settings object: pass options to run() or asgi()",
}
"""Advice by name for code without an equivalent; it is shown at the line."""

LEFT: dict[str, str] = {
    **dict.fromkeys(
        (
            "PromptReference",
            "ResourceTemplateReference",
            "Completion",
            "CompletionArgument",
            "CompletionContext",
        ),
        "completion",
    ),
    **dict.fromkeys(
        ("AuthSettings", "TokenVerifier", "AccessToken", "ClientRegistrationOptions", "RevocationOptions"),
        "auth",
    ),
    "TransportSecuritySettings": "security",
    **dict.fromkeys(("EventStore", "EventCallback", "EventMessage", "EventId", "StreamId"), "events"),
}
"""Names that need no own mark, because the code that uses them is marked."""

ABSENT: dict[str, str] = {
    "get_access_token": "use ctx.principal",
    "create_connected_server_and_client_session": "use mcpkit.testing.connect(server)",
    "UrlElicitationRequiredError": "use `await ctx.elicit_url(message, url)`",
    "ReadResourceContents": "return text, bytes, or a File with its MIME type",
    "GetPromptResult": "return the messages; set the description in the decorator",
    "Server": "mcpkit has no low-level Server",
    "FastMCPError": "catch ToolError, ResourceError or PromptError",
    "ValidationError": "catch ToolError, ResourceError or PromptError",
    "EventStore": "not needed: mcpkit stores events; Server(storage=...) shares them between processes",
    "stdio_server": "use `serve_stdio` of mcpkit.transports.stdio",
    "SseServerTransport": "use the app of asgi(), which also serves HTTP+SSE",
    "StreamableHTTPSessionManager": "use the app of asgi()",
}
"""Names without an equivalent, and the alternatives."""
