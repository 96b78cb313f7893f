"""The import hook: modules that replace those of `mcp` and `fastmcp`, with names from mcpkit.

A line of `TABLE` has one or more modules, and the sources of their names below `mcpkit.compat`. `*` means all names of
a module, and `Name=Ours` a name that differs here. Names after `absent:` may be imported and used in annotations, but
raise NotImplementedError when they are called.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder

    class _Finder(MetaPathFinder, Loader):
        pass
else:
    _Finder = object  # `importlib.abc` imports `importlib.resources`, which takes longer than this module

TABLE: Final = """
fastmcp = fastmcp: * __version__; absent: ClientGroup FastMCPApp
fastmcp.client fastmcp.client.client = fastmcp.in_process_client: Client CallToolResult
fastmcp.dependencies fastmcp.server.dependencies = fastmcp.function_calls: Dependency Depends get_context get_server
    get_http_request get_http_headers get_access_token CurrentContext CurrentFastMCP CurrentRequest CurrentHeaders
    CurrentAccessToken
fastmcp.exceptions = fastmcp.fastmcp_components: FastMCPError ValidationError ResourceError ToolError PromptError
    AuthorizationError ClientError NotFoundError DisabledError; shared_models_and_settings: McpError;
    mcp_fastmcp.function_metadata: InvalidSignature
fastmcp.prompts fastmcp.prompts.base fastmcp.prompts.prompt = fastmcp.resources_and_prompts: Message PromptResult
    Prompt; types: PromptMessage TextContent ImageContent EmbeddedResource
fastmcp.resources fastmcp.resources.types fastmcp.resources.resource fastmcp.resources.template =
    fastmcp.resources_and_prompts: ResourceContent ResourceResult Resource ResourceTemplate;
    mcp_fastmcp.mcp_components: TextResource BinaryResource FileResource; absent: HttpResource DirectoryResource
fastmcp.server fastmcp.server.context fastmcp.server.server = fastmcp.fastmcp_server: FastMCP;
    fastmcp.fastmcp_context: Context
fastmcp.server.elicitation = fastmcp.fastmcp_context: AcceptedElicitation ScalarElicitationType;
    mcp_fastmcp.mcp_server: CancelledElicitation DeclinedElicitation
fastmcp.tools fastmcp.tools.tool fastmcp.tools.base fastmcp.tools.function_tool = fastmcp.fastmcp_tools: Tool
    ToolResult FunctionTool=Tool
fastmcp.utilities mcp.client mcp.server.auth mcp.server.auth.middleware mcp.server.fastmcp.utilities mcp.shared
fastmcp.utilities.logging mcp.server.fastmcp.utilities.logging = shared_models_and_settings: configure_logging
    get_logger
fastmcp.utilities.types = fastmcp.fastmcp_tools: Audio File Image
mcp = types: * SamplingRole=Role; shared_models_and_settings: McpError UrlElicitationRequiredError;
    lowlevel.lowlevel_session: ServerSession; lowlevel.transports: stdio_server; absent: ClientSession
    ClientSessionGroup StdioServerParameters stdio_client
mcp.types = types: *
mcp.client.auth = absent: OAuthClientProvider TokenStorage
mcp.client.session = absent: ClientSession
mcp.client.session_group = absent: ClientSessionGroup SseServerParameters StreamableHttpParameters
mcp.client.sse = absent: sse_client
mcp.client.stdio = absent: StdioServerParameters stdio_client get_default_environment
mcp.client.streamable_http = absent: streamablehttp_client streamable_http_client GetSessionIdCallback
mcp.server = mcp_fastmcp.mcp_server: FastMCP; lowlevel.lowlevel_server: Server NotificationOptions
    InitializationOptions
mcp.server.auth.middleware.auth_context = shared_models_and_settings: get_access_token
mcp.server.auth.middleware.bearer_auth = mcp_fastmcp.mcp_http_apps: AuthenticatedUser
mcp.server.auth.provider = shared_models_and_settings: AccessToken TokenVerifier; absent:
    OAuthAuthorizationServerProvider
mcp.server.auth.settings = shared_models_and_settings: AuthSettings; absent: ClientRegistrationOptions
    RevocationOptions
mcp.server.elicitation = mcp_fastmcp.mcp_server: AcceptedElicitation AcceptedUrlElicitation CancelledElicitation
    DeclinedElicitation ElicitationResult ElicitSchemaModelT UrlElicitationResult elicit_url elicit_with_validation
mcp.server.fastmcp = mcp_fastmcp: *
mcp.server.fastmcp.exceptions = mcp_fastmcp.function_metadata: FastMCPError ValidationError ResourceError ToolError
    InvalidSignature
mcp.server.fastmcp.prompts = mcp_fastmcp.mcp_components: Prompt PromptManager
mcp.server.fastmcp.prompts.base = mcp_fastmcp.mcp_components: Prompt PromptArgument Message UserMessage
    AssistantMessage message_validator
mcp.server.fastmcp.prompts.manager = mcp_fastmcp.mcp_components: PromptManager
mcp.server.fastmcp.resources = mcp_fastmcp.mcp_components: Resource FunctionResource ResourceManager ResourceTemplate
    TextResource BinaryResource FileResource; absent: HttpResource DirectoryResource
mcp.server.fastmcp.resources.base = mcp_fastmcp.mcp_components: Resource
mcp.server.fastmcp.resources.resource_manager = mcp_fastmcp.mcp_components: ResourceManager
mcp.server.fastmcp.resources.templates = mcp_fastmcp.mcp_components: ResourceTemplate
mcp.server.fastmcp.resources.types = mcp_fastmcp.mcp_components: FunctionResource TextResource BinaryResource
    FileResource; absent: HttpResource DirectoryResource
mcp.server.fastmcp.server = mcp_fastmcp.mcp_server: FastMCP Context; shared_models_and_settings: Settings;
    mcp_fastmcp.mcp_http_apps: StreamableHTTPASGIApp
mcp.server.fastmcp.tools = mcp_fastmcp.mcp_components: Tool ToolManager
mcp.server.fastmcp.tools.base = mcp_fastmcp.mcp_components: Tool
mcp.server.fastmcp.tools.tool_manager = mcp_fastmcp.mcp_components: ToolManager
mcp.server.fastmcp.utilities.context_injection = shared_models_and_settings: find_context_parameter
mcp.server.fastmcp.utilities.func_metadata = mcp_fastmcp.function_metadata: ArgModelBase FuncMetadata func_metadata
    StrictJsonSchema InvalidSignature
mcp.server.fastmcp.utilities.types = mcp_fastmcp.function_metadata: Audio Image
mcp.server.lowlevel = lowlevel.lowlevel_server: Server NotificationOptions
mcp.server.lowlevel.helper_types = lowlevel.lowlevel_server: ReadResourceContents
mcp.server.lowlevel.server = lowlevel.lowlevel_server: *; lowlevel.lowlevel_session: request_ctx RequestContext
mcp.server.models = lowlevel.lowlevel_server: InitializationOptions; types: Icon ServerCapabilities
mcp.server.session = lowlevel.lowlevel_session: ServerSession
mcp.server.sse = lowlevel.transports: SseServerTransport; shared_models_and_settings: TransportSecuritySettings
mcp.server.stdio = lowlevel.transports: stdio_server
mcp.server.streamable_http = absent: EventStore EventMessage StreamableHTTPServerTransport
mcp.server.streamable_http_manager = lowlevel.transports: StreamableHTTPSessionManager
mcp.server.transport_security = shared_models_and_settings: TransportSecuritySettings
mcp.shared.context = lowlevel.lowlevel_session: RequestContext SessionT LifespanContextT RequestT
mcp.shared.exceptions = shared_models_and_settings: McpError UrlElicitationRequiredError
mcp.shared.memory = absent: create_connected_server_and_client_session create_client_server_memory_streams
mcp.shared.message = shared_models_and_settings: SessionMessage; absent: ServerMessageMetadata ClientMessageMetadata
    MessageMetadata ResumptionToken
mcp.shared.session = absent: BaseSession RequestResponder ProgressFnT
mcp.shared.tool_name_validation = shared_models_and_settings: SEP_986_URL validate_and_warn_tool_name; absent:
    ToolNameValidationResult validate_tool_name
mcp.shared.version = shared_models_and_settings: SUPPORTED_PROTOCOL_VERSIONS; types: LATEST_PROTOCOL_VERSION
"""

_CLIENT: Final = "Use `mcpkit.Client`."
_RESOURCES: Final = "Write a function with `@mcp.resource(uri)`."
_TASKS: Final = "Use `@server.tool(task=True)` of `mcpkit.Server`."

ALTERNATIVES: Final = {
    "fastmcp.": "`mcpkit.compat` has the constructor, decorators, `Context`, `run` and `Client(server)` of `fastmcp`.",
    "fastmcp.cli": "Run the server with `mcpkit run --compat FILE`.",
    "fastmcp.client.": _CLIENT,
    "fastmcp.contrib": "Use the decorators of `FastMCP`.",
    "fastmcp.resources": _RESOURCES,
    "fastmcp.server.auth": 'Use `Server(auth=...)` of mcpkit, see "Authorization" in its documentation.',
    "fastmcp.server.middleware": "Use `@server.middleware` of mcpkit.",
    "fastmcp.server.openapi": "Call the API in tools with an HTTP client.",
    "fastmcp.server.proxy": _CLIENT,
    "fastmcp.server.tasks": _TASKS,
    "fastmcp_remote": _CLIENT,
    "fastmcp_tasks": _TASKS,
    "mcp.Client": _CLIENT,
    "mcp.StdioServerParameters": _CLIENT,
    "mcp.stdio_client": _CLIENT,
    "mcp.cli": "Run the server with `mcpkit run --compat FILE`.",
    "mcp.client": _CLIENT,
    "mcp.server.auth": (
        "Pass `token_verifier=` and `auth=` to `FastMCP` to accept tokens of an authorization server; "
        "`mcpkit.auth` has one that issues tokens."
    ),
    "mcp.server.experimental": _TASKS,
    "mcp.server.fastmcp.resources": _RESOURCES,
    "mcp.server.streamable_http": "Use `mcp.streamable_http_app()`; mcpkit stores the events itself.",
    "mcp.server.websocket": 'mcpkit does not support WebSocket. Use `mcp.run(transport="streamable-http")`.',
    "mcp.shared._httpx_utils": "Use `httpx.AsyncClient(follow_redirects=True)`.",
    "mcp.shared.auth": "Pass `token_verifier=` to `FastMCP`; `mcpkit.auth` can issue tokens.",
    "mcp.shared.experimental": _TASKS,
    "mcp.shared.message": "Create the `SessionMessage` without metadata.",
    "mcp.shared.memory": "In tests of a server, use `mcpkit.testing` or `mcpkit.Client(server)`.",
    "mcp.shared.progress": "Use `await ctx.report_progress(progress, total)`.",
    "mcp.shared.tool_name_validation": "Use `validate_and_warn_tool_name` to check a name.",
    "mcp.types.": f"For tasks: {_TASKS[0].lower()}{_TASKS[1:]}",
}
"""Alternatives, by prefix of the name; the longest prefix wins."""

DEFAULT_ALTERNATIVE: Final = (
    'Remove it, or write this part for mcpkit, see "Servers of other SDKs" in its documentation.'
)

MODULES: Final[dict[str, list[tuple[str, dict[str, str]]]]] = {}
"""The modules, each with the sources of its names."""

for _line in TABLE.replace("\n    ", " ").split("\n")[1:-1]:
    _modules, _, _parts = _line.partition(" = ")
    _sources = [
        (source, {name: ours or name for name, _, ours in (each.partition("=") for each in names.split())})
        for source, _, names in (part.partition(": ") for part in _parts.split("; ") if part)
    ]
    MODULES.update(dict.fromkeys(_modules.split(), _sources))

COMPANIONS: Final = frozenset({"fastmcp_remote", "fastmcp_tasks"})
"""Packages of the authors of `fastmcp` that mcpkit does not replace."""

ROOTS: Final = {name for name in MODULES if "." not in name} | COMPANIONS


def absent_text(name: str) -> str:
    """Return the message for a missing module or name, with the alternative."""
    prefix = max((each for each in ALTERNATIVES if name.startswith(each)), key=len, default="")
    alternative = ALTERNATIVES.get(prefix, DEFAULT_ALTERNATIVE)
    return f"mcpkit.compat replaces {name.partition('.')[0]!r} in this process and has no {name!r}. {alternative}"


class _AbsentType(type):
    """Metaclass of `Absent`: access to an attribute raises an error with its name."""

    def __getattr__(cls, name: str) -> NoReturn:
        full = f"{cls.__module__}.{cls.__name__}.{name}"
        raise AttributeError(full if name.startswith("__") else absent_text(full), name=name, obj=cls)


class Absent(metaclass=_AbsentType):
    """Base class of names that may be imported and used in annotations only."""

    def __new__(cls, *_: object, **__: object) -> NoReturn:
        """Raise NotImplementedError."""
        raise NotImplementedError(absent_text(f"{cls.__module__}.{cls.__name__}"))

    def __class_getitem__(cls, _: object) -> type[Absent]:
        return cls


class ReplacedModule(ModuleType):
    """A module with names that are imported at their first use.

    It is a package without a folder. For a missing name, `from mcp.x import y` therefore looks for a module `mcp.x.y`,
    and the finder raises an error with the alternative.
    """

    def __getattr__(self, name: str) -> object:
        full = f"{self.__name__}.{name}"
        if full in MODULES:
            return import_module(full)
        if name == "__all__":
            return sorted(self._names())
        for source, names in MODULES[self.__name__]:
            if name in names or ("*" in names and not name.startswith("__")):
                found = _find(source, names.get(name, name), self.__name__)
                if found is not _MISSING:
                    setattr(self, name, found)
                    return found
        raise AttributeError(absent_text(full))

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Raise NotImplementedError, for a function of `fastmcp` with the name of a module (`fastmcp.tools.tool`)."""
        raise NotImplementedError(absent_text(self.__name__))

    def __dir__(self) -> list[str]:
        inner = (name.rpartition(".")[2] for name in MODULES if name.rpartition(".")[0] == self.__name__)
        return sorted({*super().__dir__(), *inner, *self._names()})

    def _names(self) -> set[str]:
        """Return the public names, without submodules."""
        known = {name for _, names in MODULES[self.__name__] for name in names} - {"*"}
        for source, names in MODULES[self.__name__]:
            if "*" in names:
                known.update(name for name in dir(_module(source)) if not name.startswith("_"))
        return known


_MISSING: Final = object()
_is_own_process = False


def _module(source: str) -> ModuleType:
    """Import a module of mcpkit.

    In a process that runs nothing but the server, the garbage collector then ignores all objects that exist, which
    saves a fifth of the start. Elsewhere, objects of others would never be collected any more.
    """
    before = len(sys.modules)
    module = import_module(f".{source}", __package__)
    if _is_own_process and len(sys.modules) > before:
        gc.freeze()
    return module


def _find(source: str, name: str, module: str) -> object:
    """Return the name from a module of mcpkit."""
    if source == "absent":
        return type(name, (Absent,), {"__module__": module})
    return getattr(_module(source), name, _MISSING)


class Finder(_Finder):
    """Finder of the modules in the table, which come before installed ones."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module in the table.

        Raises:
            ModuleNotFoundError: A module of the same package is not in the table; the message contains the alternative.
        """
        root = fullname.partition(".")[0]
        if root not in ROOTS:
            return None
        if fullname in MODULES:
            return ModuleSpec(fullname, self, is_package=True)
        raise ModuleNotFoundError(absent_text(fullname), name=root)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module."""
        return ReplacedModule(spec.name, f"Replacement of `{spec.name}` by `mcpkit.compat`.")

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: names are imported at their first use."""


def install_hook(*, is_own_process: bool = False) -> None:
    """Install the finder before all others; see `mcpkit.compat.install`.

    Args:
        is_own_process: Whether the process runs nothing but the server. Then imported objects are frozen (`gc.freeze`).
    """
    global _is_own_process  # noqa: PLW0603 - modules belong to the process, and so does this
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    if imported := sorted(name for name in sys.modules if name.partition(".")[0] in ROOTS):
        importers = sorted(set(_importers()))
        by = f" by {', '.join(importers[:5])}" if importers else ""
        raise RuntimeError(
            f"mcpkit.compat cannot replace {imported[0]!r}, which is already imported{by}. Call "
            "`mcpkit.compat.install()` first in the process, or start the server with `mcpkit run --compat FILE`."
        )
    sys.meta_path.insert(0, Finder())
    _is_own_process = is_own_process


def _importers() -> Iterator[str]:
    """Yield the modules that contain a part of `mcp`, with their files."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ROOTS or name == "__mp_main__":
            continue
        for value in list(getattr(module, "__dict__", {}).values()):
            if isinstance(value, ModuleType):
                origin = value.__name__
            else:
                origin = (value if isinstance(value, type | FunctionType) else type(value)).__module__
            if str(origin).partition(".")[0] in ROOTS:
                yield f"{name} ({getattr(module, '__file__', None) or 'no file'})"
                break
