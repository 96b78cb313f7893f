"""The client of one server."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from typing_extensions import Unpack

from .._utils.exceptions import ProtocolError, TransportError
from .._utils.option_checks import unknown_option
from .._utils.package import __version__
from ..execution.coroutines import within
from ..options import check_group
from ..protocol.jsonrpc import Json
from ..protocol.revisions import STATELESS
from .asking.questions import ElicitationHandler, Questions, Roots, UrlElicitationHandler
from .asking.rounds import answered
from .asking.visits import URL_ELICITATION_REQUIRED, visited
from .cache_and_pagination import ALL_PAGES, CACHED_METHODS, ResultCache, all_pages
from .call_results import member_object, objects, prompt_messages, resource_contents, strings
from .caller import Caller
from .changes.changes import Subscription, SubscriptionFilter
from .changes.listening import Listening
from .changes.subscribed import Subscribed
from .client_messages import NO_HEADERS
from .client_session import ClientSession, RequestHandler
from .log_and_message_handlers import LogHandler, MessageHandler, ServerLog, add_message_handler
from .pending_requests_and_callbacks import ProgressCallback
from .retries_and_timeouts import Retries, Retrying, Timeout
from .targets.infer_target import Target
from .targets.target_transports import ServerEntry, TargetOptions, is_of_one_user, single_entry, transports_of
from .transport_interface import HasAuthorization
from .version_negotiation import Negotiation

if TYPE_CHECKING:
    from ..protocol.objects import (
        PromptDefinition,
        PromptMessage,
        ResourceContents,
        ResourceDefinition,
        ResourceTemplateDefinition,
    )
    from .asking.sampling import SamplingFunction, SamplingHandler
    from .request_telemetry import ClientTelemetry
    from .trace_and_record import Recorder, Trace

T = TypeVar("T")

_GROUPS: Final[Mapping[str, Any]] = {"timeout": Timeout, "retries": Retries}
_INFO: Final = {"name": "mcpkit", "version": __version__}


class Client(Caller):
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
        questions = Questions(
            elicit=elicitation_handler,
            elicit_url=url_elicitation_handler,
            sample=sampling_handler,
            roots=roots,
        )
        negotiation = Negotiation(protocol_version, timeout.connect)
        answerer = self._answerer(questions)
        link = ClientSession(
            entry.transports, negotiation, lifecycle=entry.stay, info=client_info or _INFO, handler=answerer
        )
        ask = self._answer if telemetry is None else partial(telemetry.measure_request, self._answer, link)
        super().__init__(link, questions, ask, validates=validate_results)
        self._timeout = entry.timeout if timeout.response is None else timeout.response
        self._total_timeout = timeout.total
        self._rounds = retries.rounds
        self._cache = ResultCache(None if cache else 0, keeps_private=is_of_one_user(options))
        self._subscribed = Subscribed(self._link)
        self._link.listeners.add(self._cache.on_notification)
        for transport in entry.transports:
            if isinstance(transport, HasAuthorization):
                transport.reauthorized.add(self._cache.clear)
        self._link.renewals.append(self._begin_anew)
        self._retrying = Retrying(retries.attempts, retries.max_delay)
        self._log = ServerLog(self._link, log_handler)
        if message_handler is not None:
            add_message_handler(self._link, message_handler)
        self._recorder: Recorder | None = None
        if trace or record is not None:
            from .trace_and_record import trace_and_record

            self._recorder = trace_and_record(self._link, trace, record, options)

    def _answerer(self, questions: Questions) -> RequestHandler:
        """Return the handler of requests from the server."""
        return questions

    async def close(self) -> None:
        """Cancel pending requests and disconnect from the server. Closing a closed client does nothing."""
        await super().close()
        if self._recorder is not None:
            self._recorder.close()

    # What it asks

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
        rest = (progress, log_level, timeout, retry, headers, use_cache)
        return self._ask(method, params, *rest)

    async def _answer(
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
        link = self._link
        told = params
        if log_level is not None or self._log.level is not None:
            told = self._log.params(params, log_level)
        quiet, longest = self._timeout, self._total_timeout
        if timeout is not None:
            own = Timeout.of(timeout)
            quiet = quiet if own.response is None else own.response
            longest = longest if own.total is None else own.total
        began = 0.0 if longest is None else time.monotonic()
        try:
            if self._cache.is_on and method in CACHED_METHODS and link.wire.revision in STATELESS:
                is_shared = progress is None and timeout is None
                link.affinity.check()  # before it waits for what another loop is answered
                once = partial(link.request, method, told, progress, quiet, longest, headers)
                result = await self._cache.answer(
                    method, params or {}, once, fresh=not use_cache, is_shared=is_shared
                )
            else:
                result = await link.request(method, told, progress, quiet, longest, headers)
        except (TransportError, ProtocolError) as error:
            again = partial(link.request, method, told, progress, quiet, longest, headers)
            retrying = self._in_spite_of(error, again, method, retry)
            if longest is None:
                result = await retrying
            else:  # which bounds all tries together
                try:
                    result = await within(max(0.0, began + longest - time.monotonic()), retrying)
                except TimeoutError:
                    if time.monotonic() < began + longest:  # a try was quiet for too long (timeout=)
                        raise
                    raise TimeoutError(
                        f"{method} was not answered within {longest:g} s, the limit of "
                        f"Timeout(total=...). The last attempt failed: {error}"
                    ) from error
        if result.get("resultType") != "input_required" or not self._rounds:
            return result
        one_round = partial(self._round, method, retry, (progress, quiet, longest, headers))
        return await answered(one_round, method, dict(told or {}), result, link.handler, self._rounds)

    async def _in_spite_of(
        self, error: Exception, again: Callable[[], Awaitable[Json]], method: str, retry: bool | None
    ) -> Json:
        """Retry a request after an error if that may help; otherwise raise the error."""
        if isinstance(error, TransportError):
            return await self._retrying.send_again(error, again, method, retry)
        if not isinstance(error, ProtocolError) or error.code != URL_ELICITATION_REQUIRED:
            raise error
        once_more = partial(self._retrying.send, again, method, retry)
        visit = partial(self._link.handler.answer, "elicitation/create")
        return await visited(error, once_more, visit, self._link.listeners)

    async def _round(self, method: str, retry: bool | None, rest: tuple[Any, ...], params: Json) -> Json:
        again = partial(self._link.request, method, params, *rest)
        return await self._retrying.send(again, method, retry)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> Awaitable[None]:
        """Send a notification to the server.

        Args:
            method: The method, such as `notifications/roots/list_changed`.
            params: The params of the notification.

        Returns:
            An awaitable that is done when the notification has been sent. Awaiting it is optional.
        """
        return self._link.notify(method, params)

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
        ref = (
            {"type": "ref/resource", "uri": reference}
            if "{" in reference
            else {"type": "ref/prompt", "name": reference}
        )
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
        requested = SubscriptionFilter.of(
            tools=tools_list_changed,
            prompts=prompts_list_changed,
            resources=resources_list_changed,
            uris=resource_subscriptions,
        )
        listening = Listening(
            self._link, self._subscribed, requested, self._cache.on_notification, self._timeout
        )
        return Subscription(requested, listening.listen)

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

    async def _begin_anew(self) -> None:
        self._cache.clear()  # it may be another server now
        self._tools.forget()

    async def _list(self, method: str, member: str, use_cache: bool) -> list[Any]:
        cache, link = self._cache, self._link
        link.affinity.check()

        async def page(params: Json) -> Json:
            told = self._log.params(params)
            ask = partial(link.request, method, told, None, self._timeout, self._total_timeout)
            return await self._retrying.send(ask, method, None)

        def pages() -> Awaitable[Json]:
            return all_pages(method, member, page, changes=lambda: cache.changes(method), clock=cache.clock)

        if cache.is_on:
            may_share = link.wire.revision in STATELESS
            whole = await cache.answer(method, ALL_PAGES, pages, fresh=not use_cache, is_shared=may_share)
        else:
            whole = await pages()
        return objects(whole, member, method)
