"""The classes of `mcp.types`, with the same names, fields and defaults.

Other classes are created at their first use from a table: a server needs few of them, and each takes time. Docstrings
of models are part of the protocol: they become descriptions in schemas.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Generic, Literal, TypeAlias, TypeVar

from pydantic import AnyUrl, BaseModel, Field, UrlConstraints, create_model
from pydantic import FileUrl as FileUrl  # noqa: PLC0414 - the table refers to it

from ..protocol.jsonrpc import Json

if TYPE_CHECKING:
    from _typeshed import Incomplete

# Constants and names of types

LATEST_PROTOCOL_VERSION = "2025-11-25"
DEFAULT_NEGOTIATED_VERSION = "2025-03-26"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CONNECTION_CLOSED = -32000
URL_ELICITATION_REQUIRED = -32042

ProgressToken: TypeAlias = str | int
Cursor: TypeAlias = str
Role: TypeAlias = Literal["user", "assistant"]
Whole: TypeAlias = Annotated[int, Field(strict=True)]
RequestId: TypeAlias = Whole | str
LoggingLevel: TypeAlias = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]
AnyFunction: TypeAlias = Callable[..., object]
Url: TypeAlias = Annotated[AnyUrl, UrlConstraints(host_required=False)]

# Base classes


class Model(BaseModel, extra="allow", defer_build=True):
    pass


class BaseMetadata(BaseModel, defer_build=True):
    """Base class for entities with name and optional title fields."""

    name: str
    title: str | None = None


class TaskMetadata(Model):
    ttl: Whole | None = None


class RequestParams(BaseModel, defer_build=True):
    class Meta(Model):
        progressToken: ProgressToken | None = None

    task: TaskMetadata | None = None
    meta: Meta | None = Field(alias="_meta", default=None)


class PaginatedRequestParams(RequestParams):
    cursor: Cursor | None = None


class NotificationParams(BaseModel, defer_build=True):
    class Meta(Model):
        pass

    meta: Meta | None = Field(alias="_meta", default=None)


RequestParamsT = TypeVar("RequestParamsT", bound=RequestParams | Json | None)
NotificationParamsT = TypeVar("NotificationParamsT", bound=NotificationParams | Json | None)
MethodT = TypeVar("MethodT", bound=str)


class Request(Model, Generic[RequestParamsT, MethodT]):
    method: MethodT
    params: RequestParamsT


class Notification(Model, Generic[NotificationParamsT, MethodT]):
    method: MethodT
    params: NotificationParamsT


if TYPE_CHECKING:
    _Paginated: TypeAlias = Request[PaginatedRequestParams | None, str]
else:
    _Paginated = Request  # pydantic builds a parametrized class at once


class PaginatedRequest(_Paginated):
    params: PaginatedRequestParams | None = None


class Result(Model):
    meta: Json | None = Field(alias="_meta", default=None)


class PaginatedResult(Result):
    nextCursor: Cursor | None = None


class ErrorData(Model):
    """Error information for JSON-RPC error responses."""

    code: int
    message: str
    data: object | None = None


class Spoken:
    if TYPE_CHECKING:
        content: list[object] | BaseModel

    @property
    def content_as_list(self) -> list[object]:
        return self.content if isinstance(self.content, list) else [self.content]


# Display


class Annotations(Model):
    audience: list[Role] | None = None
    priority: Annotated[float, Field(ge=0.0, le=1.0)] | None = None


class Icon(Model):
    """An icon for display in user interfaces."""

    src: str
    mimeType: str | None = None
    sizes: list[str] | None = None


# Resources


class Resource(BaseMetadata, Model):
    """A known resource that the server is capable of reading."""

    uri: Url
    description: str | None = None
    mimeType: str | None = None
    size: int | None = None
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: Json | None = Field(alias="_meta", default=None)


class ResourceTemplate(BaseMetadata, Model):
    """A template description for resources available on the server."""

    uriTemplate: str
    description: str | None = None
    mimeType: str | None = None
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: Json | None = Field(alias="_meta", default=None)


class ResourceContents(Model):
    """The contents of a specific resource or sub-resource."""

    uri: Url
    mimeType: str | None = None
    meta: Json | None = Field(alias="_meta", default=None)


class TextResourceContents(ResourceContents):
    """Text contents of a resource."""

    text: str


class BlobResourceContents(ResourceContents):
    """Binary contents of a resource."""

    blob: str


# Content


class TextContent(Model):
    """Text content for a message."""

    type: Literal["text"]
    text: str
    annotations: Annotations | None = None
    meta: Json | None = Field(alias="_meta", default=None)


class ImageContent(Model):
    """Image content for a message."""

    type: Literal["image"]
    data: str
    mimeType: str
    annotations: Annotations | None = None
    meta: Json | None = Field(alias="_meta", default=None)


class AudioContent(Model):
    """Audio content for a message."""

    type: Literal["audio"]
    data: str
    mimeType: str
    annotations: Annotations | None = None
    meta: Json | None = Field(alias="_meta", default=None)


class EmbeddedResource(Model):
    """
    The contents of a resource, embedded into a prompt or tool call result.

    It is up to the client how best to render embedded resources for the benefit
    of the LLM and/or the user.
    """

    type: Literal["resource"]
    resource: TextResourceContents | BlobResourceContents
    annotations: Annotations | None = None
    meta: Json | None = Field(alias="_meta", default=None)


class ResourceLink(Resource):
    """
    A resource that the server is capable of reading, included in a prompt or tool call result.

    Note: resource links returned by tools are not guaranteed to appear in the results of `resources/list` requests.
    """

    type: Literal["resource_link"]


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
Content: TypeAlias = ContentBlock

# Tools and prompts


class ToolAnnotations(Model):
    """Additional properties describing a Tool to clients.

    NOTE: all properties in ToolAnnotations are **hints**.
    They are not guaranteed to provide a faithful description of
    tool behavior (including descriptive properties like `title`).

    Clients should never make tool use decisions based on ToolAnnotations
    received from untrusted servers.
    """

    title: str | None = None
    readOnlyHint: bool | None = None
    destructiveHint: bool | None = None
    idempotentHint: bool | None = None
    openWorldHint: bool | None = None


class ToolExecution(Model):
    """Execution-related properties for a tool."""

    taskSupport: Literal["forbidden", "optional", "required"] | None = None


class Tool(BaseMetadata, Model):
    """Definition for a tool the client can call."""

    description: str | None = None
    inputSchema: Json
    outputSchema: Json | None = None
    icons: list[Icon] | None = None
    annotations: ToolAnnotations | None = None
    meta: Json | None = Field(alias="_meta", default=None)
    execution: ToolExecution | None = None


class CallToolResult(Result):
    """The server's response to a tool call."""

    content: list[ContentBlock]
    structuredContent: Json | None = None
    isError: bool = False


class PromptArgument(Model):
    """An argument for a prompt template."""

    name: str
    description: str | None = None
    required: bool | None = None


class Prompt(BaseMetadata, Model):
    """A prompt or prompt template that the server offers."""

    description: str | None = None
    arguments: list[PromptArgument] | None = None
    icons: list[Icon] | None = None
    meta: Json | None = Field(alias="_meta", default=None)


class PromptMessage(Model):
    """Describes a message returned as part of a prompt."""

    role: Role
    content: ContentBlock


class GetPromptResult(Result):
    """The server's response to a prompts/get request from the client."""

    description: str | None = None
    messages: list[PromptMessage]


# Classes that are created at their first use

_TABLE = """
EmptyResult(Result)
JSONRPCRequest(Request) jsonrpc: Literal["2.0"]; id: RequestId; method: str; params?: Json
JSONRPCNotification(Notification) jsonrpc: Literal["2.0"]; method: str; params?: Json
JSONRPCResponse jsonrpc: Literal["2.0"]; id: RequestId; result: Json
JSONRPCError jsonrpc: Literal["2.0"]; id: str | int; error: ErrorData
JSONRPCMessage = JSONRPCRequest | JSONRPCNotification | JSONRPCResponse | JSONRPCError

Implementation(BaseMetadata) version: str; websiteUrl?: str; icons?: list[Icon]
RootsCapability listChanged?: bool
SamplingContextCapability
SamplingToolsCapability
SamplingCapability context?: SamplingContextCapability; tools?: SamplingToolsCapability
FormElicitationCapability
UrlElicitationCapability
ElicitationCapability form?: FormElicitationCapability; url?: UrlElicitationCapability
ClientCapabilities experimental?: dict[str, Json]; sampling?: SamplingCapability
    elicitation?: ElicitationCapability; roots?: RootsCapability; tasks?: Json
PromptsCapability listChanged?: bool
ResourcesCapability subscribe?: bool; listChanged?: bool
ToolsCapability listChanged?: bool
LoggingCapability
CompletionsCapability
ServerCapabilities experimental?: dict[str, Json]; logging?: LoggingCapability; prompts?: PromptsCapability
    resources?: ResourcesCapability; tools?: ToolsCapability; completions?: CompletionsCapability; tasks?: Json

InitializeRequestParams(RequestParams)
    protocolVersion: str | int; capabilities: ClientCapabilities; clientInfo: Implementation
InitializeRequest(Request) method = initialize; params: InitializeRequestParams
InitializeResult(Result)
    protocolVersion: str | int; capabilities: ServerCapabilities; serverInfo: Implementation; instructions?: str
InitializedNotification(Notification) method = notifications/initialized; params?: NotificationParams
PingRequest(Request) method = ping; params?: RequestParams
ProgressNotificationParams(NotificationParams)
    progressToken: ProgressToken; progress: float; total?: float; message?: str
ProgressNotification(Notification) method = notifications/progress; params: ProgressNotificationParams
CancelledNotificationParams(NotificationParams) requestId?: RequestId; reason?: str
CancelledNotification(Notification) method = notifications/cancelled; params: CancelledNotificationParams

ListResourcesRequest(PaginatedRequest) method = resources/list
ListResourcesResult(PaginatedResult) resources: list[Resource]
ListResourceTemplatesRequest(PaginatedRequest) method = resources/templates/list
ListResourceTemplatesResult(PaginatedResult) resourceTemplates: list[ResourceTemplate]
ReadResourceRequestParams(RequestParams) uri: Url
ReadResourceRequest(Request) method = resources/read; params: ReadResourceRequestParams
ReadResourceResult(Result) contents: list[TextResourceContents | BlobResourceContents]
SubscribeRequestParams(RequestParams) uri: Url
SubscribeRequest(Request) method = resources/subscribe; params: SubscribeRequestParams
UnsubscribeRequestParams(RequestParams) uri: Url
UnsubscribeRequest(Request) method = resources/unsubscribe; params: UnsubscribeRequestParams
ResourceListChangedNotification(Notification)
    method = notifications/resources/list_changed; params?: NotificationParams
ResourceUpdatedNotificationParams(NotificationParams) uri: Url
ResourceUpdatedNotification(Notification)
    method = notifications/resources/updated; params: ResourceUpdatedNotificationParams

ListPromptsRequest(PaginatedRequest) method = prompts/list
ListPromptsResult(PaginatedResult) prompts: list[Prompt]
GetPromptRequestParams(RequestParams) name: str; arguments?: dict[str, str]
GetPromptRequest(Request) method = prompts/get; params: GetPromptRequestParams
PromptListChangedNotification(Notification) method = notifications/prompts/list_changed; params?: NotificationParams

ListToolsRequest(PaginatedRequest) method = tools/list
ListToolsResult(PaginatedResult) tools: list[Tool]
CallToolRequestParams(RequestParams) name: str; arguments?: Json
CallToolRequest(Request) method = tools/call; params: CallToolRequestParams
ToolListChangedNotification(Notification) method = notifications/tools/list_changed; params?: NotificationParams

SetLevelRequestParams(RequestParams) level: LoggingLevel
SetLevelRequest(Request) method = logging/setLevel; params: SetLevelRequestParams
LoggingMessageNotificationParams(NotificationParams) level: LoggingLevel; logger?: str; data: object
LoggingMessageNotification(Notification) method = notifications/message; params: LoggingMessageNotificationParams

ResourceTemplateReference type: Literal["ref/resource"]; uri: str
ResourceReference(ResourceTemplateReference)
PromptReference type: Literal["ref/prompt"]; name: str
CompletionArgument name: str; value: str
CompletionContext arguments?: dict[str, str]
CompleteRequestParams(RequestParams)
    ref: ResourceTemplateReference | PromptReference; argument: CompletionArgument; context?: CompletionContext
CompleteRequest(Request) method = completion/complete; params: CompleteRequestParams
Completion values: list[str]; total?: int; hasMore?: bool
CompleteResult(Result) completion: Completion

StopReason := Literal["endTurn", "stopSequence", "maxTokens", "toolUse"] | str
IncludeContext := Literal["none", "thisServer", "allServers"]
ToolUseContent type: Literal["tool_use"]; name: str; id: str; input: Json; _meta?: Json
ToolResultContent type: Literal["tool_result"]; toolUseId: str; content: list[ContentBlock] = []
    structuredContent?: Json; isError?: bool; _meta?: Json
SamplingContent := TextContent | ImageContent | AudioContent
SamplingMessageContentBlock := SamplingContent | ToolUseContent | ToolResultContent
SamplingMessage(Spoken)
    role: Role; content: SamplingMessageContentBlock | list[SamplingMessageContentBlock]; _meta?: Json
CreateMessageResult(Result) role: Role; content: SamplingContent; model: str; stopReason?: StopReason
CreateMessageResultWithTools(Spoken, Result)
    role: Role; content: SamplingMessageContentBlock | list[SamplingMessageContentBlock]
    model: str; stopReason?: StopReason
ModelHint name?: str
ModelPreferences
    hints?: list[ModelHint]; costPriority?: float; speedPriority?: float; intelligencePriority?: float
ToolChoice mode?: Literal["auto", "required", "none"]
CreateMessageRequestParams(RequestParams)
    messages: list[SamplingMessage]; modelPreferences?: ModelPreferences; systemPrompt?: str
    includeContext?: IncludeContext; temperature?: float; maxTokens: int; stopSequences?: list[str]
    metadata?: Json; tools?: list[Tool]; toolChoice?: ToolChoice
CreateMessageRequest(Request) method = sampling/createMessage; params: CreateMessageRequestParams

Root uri: FileUrl; name?: str; _meta?: Json
ListRootsRequest(Request) method = roots/list; params?: RequestParams
ListRootsResult(Result) roots: list[Root]
RootsListChangedNotification(Notification) method = notifications/roots/list_changed; params?: NotificationParams

ElicitRequestFormParams(RequestParams) mode = form; message: str; requestedSchema: Json
ElicitRequestURLParams(RequestParams) mode = url; message: str; url: str; elicitationId: str
ElicitRequestedSchema := Json
ElicitRequestParams := ElicitRequestURLParams | ElicitRequestFormParams
ElicitRequest(Request) method = elicitation/create; params: ElicitRequestParams
ElicitResult(Result) action: Literal["accept", "decline", "cancel"]
    content?: dict[str, str | int | float | bool | list[str] | None]
ElicitCompleteNotificationParams(NotificationParams) elicitationId: str
ElicitCompleteNotification(Notification)
    method = notifications/elicitation/complete; params: ElicitCompleteNotificationParams
ElicitationRequiredErrorData elicitations: list[ElicitRequestURLParams]

ClientRequestType := PingRequest | InitializeRequest | CompleteRequest | SetLevelRequest | GetPromptRequest
    | ListPromptsRequest | ListResourcesRequest | ListResourceTemplatesRequest | ReadResourceRequest
    | SubscribeRequest | UnsubscribeRequest | CallToolRequest | ListToolsRequest
ClientNotificationType := CancelledNotification | ProgressNotification | InitializedNotification
    | RootsListChangedNotification
ClientResultType :=
    EmptyResult | CreateMessageResult | CreateMessageResultWithTools | ListRootsResult | ElicitResult
ServerRequestType := PingRequest | CreateMessageRequest | ListRootsRequest | ElicitRequest
ServerNotificationType := CancelledNotification | ProgressNotification | LoggingMessageNotification
    | ResourceUpdatedNotification | ResourceListChangedNotification | ToolListChangedNotification
    | PromptListChangedNotification | ElicitCompleteNotification
ServerResultType := EmptyResult | InitializeResult | CompleteResult | GetPromptResult | ListPromptsResult
    | ListResourcesResult | ListResourceTemplatesResult | ReadResourceResult | CallToolResult | ListToolsResult
ClientRequest = ClientRequestType
ClientNotification = ClientNotificationType
ClientResult = ClientResultType
ServerRequest = ServerRequestType
ServerNotification = ServerNotificationType
ServerResult = ServerResultType
"""
"""A line is `Name(Bases) field: type; field?: type; field = constant`, where `?` marks an optional field (`None`).

`Name := type` names a type, `Name = type` is a root model of it.
"""

_FACTS = dict(re.findall(r"^(\w+)(.*(?:\n +.*)*)", _TABLE, re.MULTILINE))
"""The rest of the line of each class."""
METHODS = {
    found[1]: name for name, facts in _FACTS.items() if (found := re.search(r"method = ([\w/]+)", facts))
}
"""The classes of requests and notifications, by method."""
_HEAD = re.compile(r"(?:\(([\w, ]+)\))?(?: (:?=))?\s*")
_FIELD = re.compile(r"(\w+)(\?)?(?:: (.+?))?(?: = (.+))?")


def __getattr__(name: str) -> Incomplete:
    """Create a class from the table. Raises AttributeError if there is none."""
    if name == "__all__":
        return __dir__()
    if name not in _FACTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    facts, module = _FACTS[name], sys.modules[__name__]
    for needed in re.findall(r"\b(?!None)[A-Z]\w+", facts):
        getattr(module, needed)  # creates it: pydantic looks names up in the attributes of the module
    head = _HEAD.match(facts)
    assert head is not None
    rest = facts[head.end() :]
    bases: tuple[type[BaseModel], ...]
    fields: Json
    if head[2]:
        from pydantic import RootModel  # which is built when it is imported

        bases, fields = (RootModel,), {"root": (" ".join(rest.split()), ...)}
    else:
        bases = tuple(getattr(module, base) for base in head[1].split(", ")) if head[1] else ()
        bases += () if any(issubclass(base, Model) for base in bases) else (Model,)
        fields = dict(map(_field, re.split(r";\s*|\n\s*", rest))) if rest else {}
    options = {"defer_build": True}
    model = create_model(name, __base__=bases, __module__=__name__, __cls_kwargs__=options, **fields)
    found = globals()[name] = model.model_fields["root"].annotation if head[2] == ":=" else model
    return found


def __dir__() -> list[str]:
    written = {name for name, it in globals().items() if name[0] != "_" and not isinstance(it, type(sys))}
    return sorted({*_FACTS, *written} - {"METHODS", "create_model"})


def _field(facts: str) -> tuple[str, tuple[str, object]]:
    """Return the name of a field, its annotation and its default."""
    found = _FIELD.fullmatch(facts)
    assert found is not None, facts
    name, optional, annotation, constant = found.groups()
    if constant and not annotation:
        return name, (f'Literal["{constant}"]', constant)
    if name == "_meta":
        return "meta", (f"{annotation} | None", Field(alias=name, default=None))
    if optional:
        return name, (f"{annotation} | None", None)
    return name, (annotation, [] if constant else ...)
