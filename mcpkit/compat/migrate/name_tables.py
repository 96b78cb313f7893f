"""Names of `mcp` 1.x and their counterparts in mcpkit: one table for each kind.

Names are qualified by the module from which they are imported. Names in no table stay unchanged and get a mark.
"""

from __future__ import annotations

_FASTMCP = "mcp.server.fastmcp"
_TYPES = "mcp.types"
_IMAGES = (_FASTMCP, f"{_FASTMCP}.utilities.types")
_PROMPTS = (f"{_FASTMCP}.prompts", f"{_FASTMCP}.prompts.base")


def _pairs(words: str) -> dict[str, str]:
    """Return native names by name, from words such as `Icon` or `TextContent=Text`."""
    return {name: native or name for name, _, native in (word.partition("=") for word in words.split())}


def _in(modules: str | tuple[str, ...], words: str) -> dict[str, str]:
    """Return native names by qualified name."""
    modules = (modules,) if isinstance(modules, str) else modules
    return {f"{module}.{name}": native for module in modules for name, native in _pairs(words).items()}


class CallForm:
    """A call: its parameters in version 1, and their native form.

    Args:
        native: The native function.
        parameters: The names in version 1, in the order of positional arguments.
        first: Native positional arguments, in order.
        renamed: Parameters with another native name, as `name=native`.
        dropped: Parameters without a native counterpart.
        encoded: Parameters that are base64 in version 1, and bytes natively.
        urls: Parameters that may be an `AnyUrl` in version 1, and are strings natively.
    """

    def __init__(
        self,
        native: str,
        parameters: str = "",
        *,
        first: str = "",
        renamed: str = "",
        dropped: str = "",
        encoded: str = "",
        urls: str = "",
    ) -> None:
        self.native, self.parameters, self.first = native, parameters.split(), first.split()
        self.renamed = _pairs(renamed)
        self.dropped, self.encoded, self.urls = ({*words.split()} for words in (dropped, encoded, urls))


SERVER_CLASSES = frozenset({f"{_FASTMCP}.FastMCP", f"{_FASTMCP}.server.FastMCP", "mcp.server.FastMCP"})
CONTEXT_CLASSES = frozenset({f"{_FASTMCP}.Context", f"{_FASTMCP}.server.Context"})

RENAMED: dict[str, str] = {
    # calls of some of these are rewritten as well, see below
    **dict.fromkeys(SERVER_CLASSES, "Server"),
    **dict.fromkeys(CONTEXT_CLASSES, "Context"),
    **_in(_IMAGES, "Image Audio"),
    f"{_FASTMCP}.Icon": "Icon",
    **_in(f"{_FASTMCP}.exceptions", "ToolError ResourceError"),
    **_in((f"{_FASTMCP}.tools", f"{_FASTMCP}.tools.base"), "ToolError"),
    **_in(_PROMPTS, "Message UserMessage=user AssistantMessage=assistant"),
    **_in(
        _TYPES,
        "Icon ToolAnnotations Annotations TextContent=Text ImageContent=Image AudioContent=Audio EmbeddedResource "
        "ResourceLink CallToolResult=ToolResult PromptMessage=Message SamplingMessage=Message "
        "CreateMessageResult=SamplingResult Root",
    ),
    **_in(("mcp.shared.exceptions", "mcp"), "McpError=ProtocolError"),
    **dict.fromkeys(
        _in(
            "mcp.server.elicitation",
            "ElicitationResult AcceptedElicitation DeclinedElicitation CancelledElicitation",
        ),
        "ElicitationResult",
    ),
}
"""Native names by name of version 1."""

# Content and messages

_META = "mimeType=mime_type _meta=meta"
_MEDIA = {
    "parameters": "type data mimeType annotations _meta meta",
    "renamed": _META,
    "dropped": "type",
    "encoded": "data",
}

CONTENT: dict[str, CallForm] = {
    f"{_TYPES}.TextContent": CallForm(
        "Text", "type text annotations _meta meta", first="text", renamed="_meta=meta", dropped="type"
    ),
    f"{_TYPES}.ImageContent": CallForm("Image", **_MEDIA),
    f"{_TYPES}.AudioContent": CallForm("Audio", **_MEDIA),
    f"{_TYPES}.ResourceLink": CallForm(
        "ResourceLink",
        "type uri name title description mimeType size icons annotations _meta meta",
        first="uri name",
        renamed=_META,
        dropped="type",
        urls="uri",
    ),
    f"{_TYPES}.CallToolResult": CallForm(
        "ToolResult",
        "content structuredContent isError _meta meta",
        first="content",
        renamed="structuredContent=structured isError=is_error _meta=meta",
    ),
}
"""Content and results that differ only in the names of their arguments."""

RESOURCE_CONTENTS: dict[str, CallForm] = {
    f"{_TYPES}.TextResourceContents": CallForm(
        "EmbeddedResource", "uri text mimeType _meta meta", first="uri", renamed=_META, urls="uri"
    ),
    f"{_TYPES}.BlobResourceContents": CallForm(
        "EmbeddedResource",
        "uri blob mimeType _meta meta",
        first="uri",
        renamed=_META,
        encoded="blob",
        urls="uri",
    ),
}
"""Contents of an `EmbeddedResource` in version 1, which are its own fields in mcpkit."""

MEDIA_FILES: dict[str, str] = _in(_IMAGES, "Image=image Audio=audio")
"""Image and Audio of FastMCP, with `format=` as the subtype of a MIME type."""

USER_MESSAGES: dict[str, str] = _in(_PROMPTS, "UserMessage=user AssistantMessage=assistant")
"""Message classes with a fixed role."""

ROLE_MESSAGES = frozenset(_in(_TYPES, "PromptMessage SamplingMessage") | _in(_PROMPTS, "Message"))
"""Message classes with the argument `role=`."""

ELICITATION_ACTIONS: dict[str, str] = _in(
    "mcp.server.elicitation",
    "AcceptedElicitation=accept DeclinedElicitation=decline CancelledElicitation=cancel",
)
"""Actions by the class of a result."""

# The Context and its session

CONTEXT_METHODS: dict[str, CallForm] = {
    "report_progress": CallForm("report_progress", "progress total message", first="progress"),
    **{
        level: CallForm(level, "message logger_name", first="message", renamed="logger_name=logger")
        for level in ("debug", "info", "warning", "error")
    },
    "log": CallForm("log", "level message logger_name", first="level message", renamed="logger_name=logger"),
    "elicit": CallForm("elicit", "message schema", first="message schema"),
    "elicit_url": CallForm(
        "elicit_url", "message url elicitation_id", first="message url", dropped="elicitation_id"
    ),
    "close_sse_stream": CallForm("http.close_stream"),
}
"""Methods of the Context, which are awaited."""

_ELICIT = CallForm(
    "elicit",
    "message requestedSchema related_request_id",
    first="message requestedSchema",
    dropped="related_request_id",
)

SESSION_METHODS: dict[str, CallForm] = {
    "create_message": CallForm(
        "sample",
        "messages max_tokens system_prompt include_context temperature stop_sequences",
        first="messages",
        renamed="system_prompt=system",
        dropped="related_request_id",
    ),
    "elicit": _ELICIT,
    "elicit_form": _ELICIT,
    "send_log_message": CallForm(
        "log", "level data logger related_request_id", first="level data", dropped="related_request_id"
    ),
}
"""Methods of the session that are methods of mcpkit's Context, which are awaited."""

LIST_CHANGES = frozenset({"send_tool_list_changed", "send_resource_list_changed", "send_prompt_list_changed"})
"""Methods of the session for notifications that mcpkit sends itself."""

CONTEXT_PATHS: dict[str, str] = {
    "request_context.lifespan_context": "state",
    "request_context.request_id": "request_id",
    "request_context.meta": "meta",
    "request_context.request.headers": "headers",
    "session.client_params.clientInfo": "client",
    "fastmcp": "server",
}
"""Attributes of a Context by path; `request_context.session` counts as `session`."""

# The server

_TOOL_OPTIONS = "name title description annotations icons meta structured_output"

DECORATORS: dict[str, CallForm] = {
    "tool": CallForm("tool", _TOOL_OPTIONS, dropped="structured_output"),
    "add_tool": CallForm("tool", f"fn {_TOOL_OPTIONS}", first="fn", dropped="structured_output"),
    "resource": CallForm("resource", "uri", first="uri"),
    "prompt": CallForm("prompt", "name title description icons"),
    "custom_route": CallForm(
        "route", "path methods name include_in_schema", first="path", dropped="include_in_schema"
    ),
}
"""Methods of the server that register a function."""

CONSTRUCTOR = CallForm(
    "Server",
    "name instructions website_url icons auth_server_provider token_verifier event_store retry_interval",
    first="name",
    dropped="debug json_response warn_on_duplicate_resources warn_on_duplicate_tools warn_on_duplicate_prompts "
    "sse_path message_path mount_path event_store retry_interval dependencies max_request_body_size max_sessions "
    "session_idle_timeout log_level",
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

THREAD_BOUND = frozenset({"sqlite3.connect", "sqlite3.dbapi2.connect", "threading.local"})
"""Functions that create objects for the current thread only."""

# Marks

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

_UNMARKED = """
PromptReference ResourceTemplateReference Completion CompletionArgument CompletionContext AuthSettings TokenVerifier
AccessToken ClientRegistrationOptions RevocationOptions TransportSecuritySettings ServerSession ErrorData EventStore
EventCallback EventMessage EventId StreamId
"""
UNMARKED = frozenset(_UNMARKED.split())
"""Names that need no own mark, because the code that uses them is marked or rewritten."""

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
