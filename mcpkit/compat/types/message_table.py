"""A table of classes, each created at its first use: a server needs few of them, and each takes time.

A line is `Name(Bases) field: type; field?: type; field = constant`, where `?` marks an optional field (`None`). `Name
:= type` names a type, `Name = type` is a root model of it.
"""

from __future__ import annotations

import re
from types import ModuleType
from typing import Final

from pydantic import BaseModel, Field, create_model

from ...protocol.jsonrpc import Json

TABLE = """
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

FACTS: Final = dict(re.findall(r"^(\w+)(.*(?:\n +.*)*)", TABLE, re.MULTILINE))
"""The rest of the line of each class."""
METHODS: Final = {
    found[1]: name for name, facts in FACTS.items() if (found := re.search(r"method = ([\w/]+)", facts))
}
"""The classes of requests and notifications, by method."""

_HEAD: Final = re.compile(r"(?:\(([\w, ]+)\))?(?: (:?=))?\s*")
_FIELD: Final = re.compile(r"(\w+)(\?)?(?:: (.+?))?(?: = (.+))?")


def create(name: str, types: ModuleType) -> object:
    """Create a class of the table. Raises AttributeError if the table has no such name.

    Args:
        name: Name of the class.
        types: The module of the classes that it refers to.
    """
    if name not in FACTS:
        raise AttributeError(f"module {types.__name__!r} has no attribute {name!r}")
    facts: str = FACTS[name]
    for needed in re.findall(r"\b(?!None)[A-Z]\w+", facts):
        getattr(types, needed)  # creates it: pydantic looks names up in the attributes of the module
    head = _HEAD.match(facts)
    assert head is not None
    rest = facts[head.end() :]
    bases: tuple[type[BaseModel], ...]
    fields: Json
    if head[2]:
        from pydantic import RootModel  # which is built when it is imported

        bases, fields = (RootModel,), {"root": (" ".join(rest.split()), ...)}
    else:
        bases = tuple(getattr(types, base) for base in head[1].split(", ")) if head[1] else ()
        bases += () if any(issubclass(base, types.Model) for base in bases) else (types.Model,)
        fields = dict(map(_field, re.split(r";\s*|\n\s*", rest))) if rest else {}
    model = create_model(
        name, __base__=bases, __module__=types.__name__, __cls_kwargs__={"defer_build": True}, **fields
    )
    return model.model_fields["root"].annotation if head[2] == ":=" else model


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
