"""The client of one server."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, TypeVar, overload

from typing_extensions import Self, Unpack

from .._utils.concurrency import require_loop
from .._utils.exceptions import HEADER_MISMATCH, ProtocolError, TransportError
from .._utils.option_checks import unknown_option
from .._utils.package import __version__
from ..execution.coroutines import within
from ..options import check_group
from ..protocol.jsonrpc import Json
from ..protocol.revisions import CACHEABLE, STATELESS
from .cache_and_pagination import ALL_PAGES, MAX_ENTRIES, ResultCache, all_pages
from .call_results import CallResult, member_object, objects, prompt_messages, resource_contents, strings
from .client_messages import NO_HEADERS
from .client_session import FOR_OTHERS, NOT_OPEN, ClientSession, NegotiatedProperties, NegotiationResult
from .client_subscriptions import (
    ChangeListener,
    ChangeSource,
    ResourceSubscriptions,
    Subscription,
    SubscriptionFilter,
)
from .elicitation_and_input_rounds import (
    URL_ELICITATION_REQUIRED,
    complete_input_rounds,
    retry_after_url_elicitation,
)
from .remote_tools import ListedTools, RemoteTool
from .server_message_handlers import (
    ElicitationHandler,
    LogHandler,
    MessageHandler,
    RequestDispatcher,
    Roots,
    ServerLog,
    UrlElicitationHandler,
    add_message_handler,
)
from .targets.infer_target import Target
from .targets.target_transports import ServerEntry, TargetOptions, is_of_one_user, single_entry, transports_of
from .timeouts_retries_and_progress import ProgressCallback, Retries, Timeout, send_again, send_with_retries
from .transport_interface_and_memory import HasAuthorization
from .version_negotiation import Negotiation

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from ..protocol.objects import (
        PromptDefinition,
        PromptMessage,
        ResourceContents,
        ResourceDefinition,
        ResourceTemplateDefinition,
        ToolDefinition,
    )
    from .server_message_handlers import SamplingFunction, SamplingHandler
    from .task_handles import TaskHandle
    from .telemetry_tracing_and_recording import ClientTelemetry, Recorder, Trace

T = TypeVar("T")

Arguments = Mapping[str, Any] | None
"""Arguments of a tool, JSON values by name."""

_GROUPS: Final[Mapping[str, Any]] = {"timeout": Timeout, "retries": Retries}
_INFO: Final = {"name": "mcpkit", "version": __version__}


class CallOptions(TypedDict, total=False):
    """Options of `Client.call_tool` that do not change the type of its result."""

    progress: ProgressCallback | None
    log_level: str | None
    timeout: Timeout | float | None
    retry: bool | None
    meta: Mapping[str, Any] | None


class Direct(CallOptions, total=False):
    """Options of a call that returns its result."""

    task: Literal[False]


class AsTask(CallOptions):
    """Options of a call that returns a handle of its task."""

    task: Literal[True]


class Client(NegotiatedProperties):
    """A client of one server, over any transport and in any protocol version.

        async with Client("server.py") as client:
            result = await client.call_tool("forecast", {"city": "Oslo"})

    Several tasks may use one client at once. A client can be opened again after it was closed, and one task may close a
    client that another task opened.

    Args:
        target: The server: a server object; a script (`"server.py"`), or a folder with one; a command, as a list; a
            URL; a transport; an ASGI app; an entry of a host's configuration, or a configuration, or the path of one,
            with a single server. Use `ClientGroup` for a configuration with several servers.
        protocol_version: The protocol version to use. None negotiates the newest version that client and server know.
        client_info: The client's `Implementation`, sent to the server. None sends the name and version of mcpkit.
        timeout: Time limits in seconds, see `Timeout`. A number is the longest wait for a response.
        retries: How often requests are sent again, see `Retries`.
        elicitation_handler: Fills in a form for the user. It receives a `FormRequest` and returns the value to pass to
            `FormRequest.result`. This handler and the next two may be `async`. The client declares a capability only if
            its handler is set.
        url_elicitation_handler: Shows the user a page. It receives a `UrlRequest` and returns whether the user
            consents.
        sampling_handler: Generates a message with a model. It receives a `SampleRequest` and returns the value to pass
            to `SampleRequest.result`, for example a string. A `SamplingHandler` declares further capabilities.
        roots: The folders that the server may use, as paths or URIs, or a function that returns them.
        log_handler: Called with level, data and logger name (or None) of each log message from the server.
        message_handler: Called with method and params of each notification that belongs to no request. It,
            `log_handler` and `progress` callbacks may be `async`; the client awaits them one after the other.
        validate_results: Whether to validate the results of tools against their `outputSchema`.
        cache: Whether to reuse results for as long as the server allows, until a change notification.
        telemetry: Records OpenTelemetry spans and metrics of requests.
        trace: True prints each message to standard error. A function is called with `sent` or `received`, and the
            message as text. Secrets are masked.
        record: A file to which each message is written, for `Replay`. Secrets are masked.
        options: How to reach the server, see `TargetOptions`: `env=`, `cwd=` and `stderr=` of a process; `headers=`,
            `token=`, `auth=`, `verify=`, `cert=`, `proxy=`, `trust_env=` and `http_client=` of a URL; `path=` of an
            ASGI app; `max_answer=`.

    Raises:
        FileNotFoundError: There is no such file or folder.
        TypeError: No transport accepts the type of the target, or there is no such option.
        ValueError: The target cannot be connected to, an option does not apply to it, there is no such protocol
            version, or the configuration has several servers.
    """

    def __init__(
        self,
        target: Target | ServerEntry,
        *,
        protocol_version: str | None = None,
        client_info: Json | None = None,
        timeout: Timeout | float | None = Timeout(),  # noqa: B008 - frozen
        retries: Retries = Retries(),  # noqa: B008 - frozen
        elicitation_handler: ElicitationHandler | None = None,
        url_elicitation_handler: UrlElicitationHandler | None = None,
        sampling_handler: SamplingFunction | SamplingHandler | None = None,
        roots: Roots | None = None,
        log_handler: LogHandler | None = None,
        message_handler: MessageHandler | None = None,
        validate_results: bool = True,
        cache: bool = True,
        telemetry: ClientTelemetry | None = None,
        trace: Trace | bool = False,
        record: str | os.PathLike[str] | None = None,
        **options: Unpack[TargetOptions],
    ) -> None:
        if unknown := options.keys() - TargetOptions.__optional_keys__:
            known = [*(Client.__init__.__kwdefaults__ or ()), *TargetOptions.__optional_keys__]
            raise TypeError(unknown_option("Client()", min(unknown), known, _GROUPS))
        timeout = Timeout.of(timeout)
        check_group("retries", retries, Retries)
        if telemetry is not None and not hasattr(telemetry, "measure_request"):
            raise TypeError(f"telemetry must be a ClientTelemetry, got {telemetry!r}")
        entry = target if isinstance(target, ServerEntry) else single_entry(transports_of(target, **options))
        self._dispatcher = RequestDispatcher(
            elicitation_handler, url_elicitation_handler, sampling_handler, roots
        )
        self._session = session = ClientSession(
            entry.transports,
            Negotiation(protocol_version, timeout.connect),
            lifecycle=entry.lifecycle,
            info=client_info or _INFO,
            handler=self._dispatcher,
        )
        self._dispatcher.server_info = lambda: {} if session.negotiated is None else session.negotiated.info
        self._send: Callable[..., Coroutine[Any, Any, Json]] = self._send_request
        if telemetry is not None:
            self._send = partial(telemetry.measure_request, self._send_request, session)
        self._entered = 0  # open `async with` blocks; the client is closed when the last of them is left
        self._timeout = entry.timeout if timeout.response is None else timeout.response
        self._total_timeout = timeout.total
        self._retries = retries
        self._cache = ResultCache(MAX_ENTRIES if cache else 0, keeps_private=is_of_one_user(options))
        self._tools = ListedTools(self.list_tools)
        self._validates = validate_results
        self._resource_subscriptions = ResourceSubscriptions(session)
        session.listeners.add(self._cache.on_notification)
        session.listeners.add(self._tools.on_notification)
        session.renewals.append(self._clear_results)
        for transport in entry.transports:
            if isinstance(transport, HasAuthorization):
                transport.reauthorized.add(self._cache.clear)
        self._log = ServerLog(session, log_handler)
        if message_handler is not None:
            add_message_handler(session, message_handler)
        self._recorder: Recorder | None = None
        if trace or record is not None:
            from .telemetry_tracing_and_recording import trace_and_record

            self._recorder = trace_and_record(session, trace, record, options)

    async def _clear_results(self) -> None:
        self._cache.clear()  # it may be another server now
        self._tools.clear()

    # Opening and closing

    async def __aenter__(self) -> Self:
        """Connect and negotiate a protocol version, unless the client is open already.

        Raises:
            RuntimeError: No asyncio event loop is running, or the client is open in another event loop.
            Exception: The client cannot connect to the server.
        """
        require_loop("the client", FOR_OTHERS)
        self._check_loop()
        self._entered += 1
        try:
            await self._connect()
        except BaseException:
            await self._leave()
            raise
        return self

    async def _connect(self) -> None:
        await self._session.open()

    async def __aexit__(self, *error: object) -> None:
        """Close the client, unless another block still uses it."""
        await self._leave()

    async def _leave(self) -> None:
        self._check_loop()
        self._entered -= 1
        if self._entered <= 0:
            await self.close()

    async def close(self) -> None:
        """Cancel pending requests and disconnect from the server, also if several blocks use the client.

        Closing a closed client does nothing.
        """
        self._check_loop()
        self._entered = 0
        await self._session.close()
        if self._recorder is not None:
            self._recorder.close()

    def _check_loop(self) -> None:
        self._session.affinity.check(is_leaving=True)

    # Properties of the connection

    def _negotiated(self, name: str) -> NegotiationResult:
        if self._session.negotiated is None:
            raise ConnectionError(NOT_OPEN)
        return self._session.negotiated

    @property
    def roots(self) -> Roots | None:
        """The folders that the server may use, as they were given to the client.

        They can be set at any time. An open client then notifies servers of versions before 2026-07-28 that the roots
        have changed.

        Raises:
            ValueError: On setting: the session of a version before 2026-07-28 was opened without roots.
        """
        return self._dispatcher.roots

    @roots.setter
    def roots(self, roots: Roots | None) -> None:
        session = self._session
        if (
            session.is_open
            and session.wire.revision not in STATELESS
            and "roots" not in session.wire.capabilities
        ):
            raise ValueError(
                "the client was connected without roots, so they cannot be set in this session. "
                "Create it with roots=[] to set them later"
            )
        self._dispatcher.roots = roots
        if session.is_open and session.wire.revision in STATELESS:
            session.use_revision(session.wire.revision)
        elif session.is_open:
            session.notify("notifications/roots/list_changed")

    # Requests and notifications

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        progress: ProgressCallback | None = None,
        log_level: str | None = None,
        timeout: Timeout | float | None = None,
        retry: bool | None = None,
        use_cache: bool = True,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> Coroutine[Any, Any, Json]:
        """Send any request and return its result.

        If the server requires input (elicitation, sampling, roots), the client calls the handlers and repeats the
        request, up to `Retries.rounds` times.

        Args:
            method: The method, such as `tools/list`.
            params: The params of the request. The client adds the `_meta` of the protocol version.
            progress: Called with progress, total and message of each progress notification.
            log_level: The lowest level of log messages for this request. Only 2026-07-28 has it.
            timeout: Time limits of this request in seconds. None takes those of the client.
            retry: Whether the request may be sent again after a lost connection. None decides by its method.
            use_cache: Whether a cached result may be returned.
            headers: Additional HTTP headers. Transports other than HTTP ignore them.

        Returns:
            The result, as the server sent it.

        Raises:
            ProtocolError: The server responded with an error.
            TimeoutError: A time limit has passed. The client has cancelled the request.
            OutcomeUnknownError: The server may or may not have run the request.
            ConnectionError: The server cannot be reached, or the connection was lost before the response.
        """
        return self._send(method, params, progress, log_level, timeout, retry, headers, use_cache)

    async def _send_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        progress: ProgressCallback | None = None,
        log_level: str | None = None,
        timeout: Timeout | float | None = None,
        retry: bool | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        use_cache: bool = True,
    ) -> Json:
        session = self._session
        sent = params
        if log_level is not None or self._log.level is not None:
            sent = self._log.params(params, log_level)
        response_timeout, total_timeout = self._timeout, self._total_timeout
        if timeout is not None:
            own = Timeout.of(timeout)
            response_timeout = response_timeout if own.response is None else own.response
            total_timeout = total_timeout if own.total is None else own.total
        began = 0.0 if total_timeout is None else time.monotonic()
        send = partial(session.request, method, sent, progress, response_timeout, total_timeout, headers)
        try:
            if self._cache.is_on and method in CACHEABLE and session.wire.revision in STATELESS:
                is_shared = progress is None and timeout is None
                session.affinity.check()  # before it waits for a request of another event loop
                result = await self._cache.answer(
                    method, params or {}, send, fresh=not use_cache, is_shared=is_shared
                )
            else:
                result = await send()
        except (TransportError, ProtocolError) as error:
            retrying = self._retry(error, send, method, retry)
            if total_timeout is None:
                result = await retrying
            else:  # the limit of all attempts together
                try:
                    result = await within(max(0.0, began + total_timeout - time.monotonic()), retrying)
                except TimeoutError:
                    if time.monotonic() < began + total_timeout:  # the response timeout of one attempt
                        raise
                    raise TimeoutError(
                        f"{method} was not answered within {total_timeout:g} s, the limit of "
                        f"Timeout(total=...). The last attempt failed: {error}"
                    ) from error
        if result.get("resultType") != "input_required" or not self._retries.rounds:
            return result

        def send_round(params: Json) -> Awaitable[Json]:
            send = partial(
                session.request, method, params, progress, response_timeout, total_timeout, headers
            )
            return send_with_retries(self._retries, send, method, retry)

        return await complete_input_rounds(
            send_round, method, dict(sent or {}), result, session.handler, self._retries.rounds
        )

    async def _retry(
        self, error: Exception, send: Callable[[], Awaitable[Json]], method: str, retry: bool | None
    ) -> Json:
        """Send a request again after an error if that may help; otherwise raise the error."""
        if isinstance(error, TransportError):
            return await send_again(self._retries, error, send, method, retry)
        if not isinstance(error, ProtocolError) or error.code != URL_ELICITATION_REQUIRED:
            raise error
        again = partial(send_with_retries, self._retries, send, method, retry)
        return await retry_after_url_elicitation(error, again, self._session.handler, self._session.listeners)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> Awaitable[None]:
        """Send a notification to the server.

        Args:
            method: The method, such as `notifications/roots/list_changed`.
            params: The params of the notification.

        Returns:
            An awaitable that is done when the notification has been sent. Awaiting it is optional.
        """
        return self._session.notify(method, params)

    # Tools

    @overload
    async def call_tool(
        self, name: str, arguments: Arguments = None, *, result_type: None = None, **options: Unpack[Direct]
    ) -> CallResult: ...
    @overload
    async def call_tool(
        self, name: str, arguments: Arguments = None, *, result_type: None = None, **options: Unpack[AsTask]
    ) -> TaskHandle[CallResult]: ...
    @overload
    async def call_tool(
        self, name: str, arguments: Arguments = None, *, result_type: TypeForm[T], **options: Unpack[Direct]
    ) -> T: ...
    @overload
    async def call_tool(
        self, name: str, arguments: Arguments = None, *, result_type: TypeForm[T], **options: Unpack[AsTask]
    ) -> TaskHandle[T]: ...
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        result_type: Any = None,
        task: bool = False,
        progress: ProgressCallback | None = None,
        log_level: str | None = None,
        timeout: Timeout | float | None = None,
        retry: bool | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a tool and return its result, or with `task=True` a handle of its task.

        Args:
            name: The name of the tool.
            arguments: Its arguments, JSON values by name.
            result_type: The type of the returned value, read from the structured content, or else from the text: a
                dataclass, `TypedDict`, pydantic model or any other type that a tool's argument may have. None returns a
                `CallResult`.
            task: Whether the call may run as a task, if the server and the tool support that. Then the method returns a
                `TaskHandle` as soon as the server has created the task. If the server creates none, the method returns
                a handle with the result, after the call.
            progress: Called with progress, total and message of each progress notification.
            log_level: The lowest level of log messages for this request. Only 2026-07-28 has it.
            timeout: Time limits of this call in seconds. None takes those of the client.
            retry: Whether the call may be sent again after a lost connection. None allows it for tools whose
                annotations declare them read-only or idempotent.
            meta: Members of the request's `_meta`, such as those of extensions.

        Returns:
            A `CallResult`, or a value of `result_type`; with `task=True` a `TaskHandle` of it.

        Raises:
            ToolError: The tool failed, and `result_type` is given. Without `result_type` see `CallResult.is_error`.
            InvalidResultError: The result does not fit the tool's `outputSchema`, or `result_type`.
            ProtocolError: The server responded with an error, for example because there is no such tool; or a member of
                its result cannot be read, which the message names.
            TimeoutError: A time limit has passed. The client has cancelled the request.
            OutcomeUnknownError: The server may or may not have run the tool.
            ConnectionError: The server cannot be reached, or the connection was lost before the response.
        """
        params: Json = {"name": name, "arguments": arguments or {}}
        if meta is not None:
            params["_meta"] = dict(meta)
        if task:
            from .task_handles import request_task

            params = await request_task(params, self._session, self.list_tools)
        tools = self._tools
        if self._repeats_arguments:
            answer = await self._send_with_headers(name, params, retry, progress, log_level, timeout)
        else:
            retry = tools.is_harmless(name) if retry is None else retry
            answer = await self._send("tools/call", params, progress, log_level, timeout, retry)
        read = partial(self._read_result, name, result_type, self._validates)
        if not task:
            return await read(answer)
        from .task_handles import task_of_call

        return task_of_call(answer, self._session, self._send, read, progress)

    async def _send_with_headers(self, name: str, params: Json, retry: bool | None, *options: Any) -> Json:
        """Call a tool with the headers that repeat arguments, and again if its definition has changed."""
        tools, is_fresh = self._tools, False
        while True:
            headers = await tools.headers(name, params["arguments"], fresh=is_fresh)
            may_repeat = tools.is_harmless(name) if retry is None else retry
            try:
                return await self._send("tools/call", params, *options, may_repeat, headers)
            except ProtocolError as error:
                if error.code != HEADER_MISMATCH or is_fresh:
                    raise
                is_fresh = True

    @property
    def _repeats_arguments(self) -> bool:
        """Whether tools may require arguments in HTTP headers (`x-mcp-header`)."""
        session = self._session
        return session.wire.revision in STATELESS and getattr(session.transport, "is_http", False)

    async def _read_result(self, name: str, result_type: Any, validates: bool, answer: Json) -> Any:
        result = CallResult(answer, may_be_null=self._session.wire.revision in STATELESS)
        if validates and not result.is_error and self._tools.may_have_output_schema(name, result):
            await self._tools.check(name, result)
        if result_type is None:
            return result
        from .server_schemas_and_typed_results import read_into  # imports pydantic's schemas

        return read_into(result, result_type, name)

    @overload
    def task(self, task_id: str, *, result_type: None = None) -> TaskHandle[CallResult]: ...
    @overload
    def task(self, task_id: str, *, result_type: TypeForm[T]) -> TaskHandle[T]: ...
    def task(self, task_id: str, *, result_type: Any = None) -> TaskHandle[Any]:
        """Return a handle of a task that this or another client has created: `client.task(stored_id)`.

        Nothing is sent. The server must know the user of the client as the owner of the task.

        Args:
            task_id: The id of the task, see `TaskHandle.id`.
            result_type: The type of the result, see `call_tool`.
        """
        from .task_handles import TaskHandle

        read = partial(self._read_result, f"the task {task_id}", result_type, False)
        return TaskHandle(task_id, self._session, self._send, read)

    async def tools(self) -> dict[str, RemoteTool]:
        """Return all tools by name, as callables: `await (await client.tools())["forecast"](city="Oslo")`.

        Raises:
            ProtocolError: The server responded with an error, or with a result that cannot be read.
        """
        return {str(tool.get("name")): RemoteTool(self.call_tool, tool) for tool in await self.list_tools()}

    async def list_tools(self, *, use_cache: bool = True) -> list[ToolDefinition]:
        """Return the tools of all pages.

        Args:
            use_cache: Whether a cached list may be returned.

        Returns:
            The `Tool` objects of the specification, without those that are invalid.

        Raises:
            ProtocolError: The server responded with an error, or with a result that cannot be read.
        """
        tools = await self._list("tools/list", "tools", use_cache)
        return self._tools.store(tools, by_http=self._repeats_arguments)

    # Resources, prompts and completion

    async def list_resources(self, *, use_cache: bool = True) -> list[ResourceDefinition]:
        """Return the resources of all pages.

        Args:
            use_cache: Whether a cached list may be returned.

        Returns:
            The `Resource` objects of the specification.

        Raises:
            ProtocolError: The server responded with an error, or with a result that cannot be read.
        """
        return await self._list("resources/list", "resources", use_cache)

    async def list_resource_templates(self, *, use_cache: bool = True) -> list[ResourceTemplateDefinition]:
        """Return the resource templates of all pages.

        Args:
            use_cache: Whether a cached list may be returned.

        Returns:
            The `ResourceTemplate` objects of the specification.

        Raises:
            ProtocolError: The server responded with an error, or with a result that cannot be read.
        """
        return await self._list("resources/templates/list", "resourceTemplates", use_cache)

    async def list_prompts(self, *, use_cache: bool = True) -> list[PromptDefinition]:
        """Return the prompts of all pages.

        Args:
            use_cache: Whether a cached list may be returned.

        Returns:
            The `Prompt` objects of the specification.

        Raises:
            ProtocolError: The server responded with an error, or with a result that cannot be read.
        """
        return await self._list("prompts/list", "prompts", use_cache)

    async def read_resource(self, uri: str, *, use_cache: bool = True) -> list[ResourceContents]:
        """Read a resource and return its contents.

        Args:
            uri: The URI of the resource.
            use_cache: Whether cached contents may be returned.

        Returns:
            The contents, each with `uri` and either `text` or `blob`.

        Raises:
            ProtocolError: The server responded with an error, for example because there is no such resource; or a
                member of its result cannot be read, which the message names.
        """
        return resource_contents(await self.request("resources/read", {"uri": uri}, use_cache=use_cache), uri)

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> list[PromptMessage]:
        """Get a prompt and return its messages.

        Args:
            name: The name of the prompt.
            arguments: Its arguments, strings by name.

        Returns:
            The messages, each with `role` and `content`.

        Raises:
            ProtocolError: The server responded with an error; or a member of its result cannot be read, which the
                message names.
        """
        params = {"name": name, "arguments": arguments or {}}
        return prompt_messages(await self.request("prompts/get", params))

    async def complete(
        self, reference: str, argument: str, value: str, arguments: Mapping[str, str] | None = None
    ) -> list[str]:
        """Complete an argument of a prompt or resource template.

        Args:
            reference: A prompt's name, or a resource template's URI template. A reference with `{` is a template.
            argument: The name of the argument.
            value: The text typed so far.
            arguments: The arguments already filled in, by name.

        Returns:
            The suggested values.

        Raises:
            ProtocolError: The server responded with an error.
        """
        ref = {"type": "ref/prompt", "name": reference}
        if "{" in reference:
            ref = {"type": "ref/resource", "uri": reference}
        params: Json = {"ref": ref, "argument": {"name": argument, "value": value}}
        if arguments:
            params["context"] = {"arguments": arguments}
        method = "completion/complete"
        completion = member_object(await self.request(method, params), "completion", method)
        return strings(completion, "values", method)

    def listen(
        self,
        *,
        tools_list_changed: bool = False,
        prompts_list_changed: bool = False,
        resources_list_changed: bool = False,
        resource_subscriptions: str | Iterable[str] = (),
    ) -> Subscription:
        """Subscribe to changes: `async with client.listen(tools_list_changed=True) as changes`, then `async for`.

        Without arguments the subscription covers each list for which the server declares `listChanged`.

        Args:
            tools_list_changed: Whether to receive changes of the list of tools.
            prompts_list_changed: Whether to receive changes of the list of prompts.
            resources_list_changed: Whether to receive changes of the lists of resources and resource templates.
            resource_subscriptions: URIs of resources to subscribe to. Servers may also accept URI templates.

        Returns:
            A subscription, which is an async context manager and an async iterator of `Change`.

        Raises:
            TypeError: A URI is not a string.
        """
        flags = tools_list_changed, prompts_list_changed, resources_list_changed  # as in `LIST_NAMES`
        requested = SubscriptionFilter.of(flags, resource_subscriptions)
        return Subscription(requested, self._change_source(requested))

    def _change_source(self, requested: SubscriptionFilter) -> ChangeSource:
        return ChangeListener(
            self._session, self._resource_subscriptions, requested, self._cache.on_notification, self._timeout
        ).listen

    async def ping(self) -> None:
        """Send a `ping`. Only servers of versions before 2026-07-28 support it.

        Raises:
            ProtocolError: The protocol version has no `ping`.
        """
        await self.request("ping")

    async def set_log_level(self, level: str) -> None:
        """Set the lowest level of log messages that the server sends, on this connection and on later ones.

        A client that is not open sends the level when it connects.

        Args:
            level: The level, such as `warning`.

        Raises:
            ProtocolError: There is no such level, or the server does not log.
        """
        if self._log.set_level(level):
            await self.request("logging/setLevel", {"level": level})

    async def _list(self, method: str, member: str, use_cache: bool) -> list[Any]:
        """Return the items of all pages of a list method."""
        cache, session = self._cache, self._session
        session.affinity.check()

        def send_page(params: Json) -> Awaitable[Json]:
            sent = self._log.params(params)
            send = partial(session.request, method, sent, None, self._timeout, self._total_timeout)
            return send_with_retries(self._retries, send, method, None)

        def send() -> Awaitable[Json]:
            return all_pages(
                method, member, send_page, changes=lambda: cache.changes(method), clock=cache.clock
            )

        if cache.is_on:
            is_shared = session.wire.revision in STATELESS
            whole = await cache.answer(method, ALL_PAGES, send, fresh=not use_cache, is_shared=is_shared)
        else:
            whole = await send()
        return objects(whole, member, method)


def negotiation_of(client: Client, name: str) -> NegotiationResult:
    """Return the outcome of the negotiation of a client, for the property of that name."""
    return client._negotiated(name)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # for other clients
