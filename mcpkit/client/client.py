"""The client: what its users touch."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from typing_extensions import Self, Unpack

from ..calls.coroutines import within
from ..common.errors import ProtocolError
from ..common.numbers import check_count, check_seconds
from ..common.version import __version__
from ..protocol.client import NO_HEADERS
from ..protocol.revisions import STATELESS
from ..protocol.types import Json
from .asking.questions import ElicitHandler, Questions, Roots, UrlHandler
from .asking.rounds import ROUNDS, answered
from .asking.visits import URL_ELICITATION_REQUIRED, visited
from .caller import Caller
from .changes.changes import Wanted, Watch
from .changes.listening import Listening
from .changes.subscribed import Subscribed
from .link.answerer import Answerer
from .link.answers import member_object, objects, strings
from .link.awaited import Progress
from .link.cache import METHODS, ResultCache
from .link.contents import prompt_messages, resource_contents
from .link.errors import TransportError
from .link.link import Link
from .link.negotiation import Negotiation
from .link.pages import ALL_PAGES, all_pages
from .link.retrying import Retrying
from .link.transport import HasAuthorization
from .observability.logs import Log, ServerLog
from .observability.notifications import Notified, hear_notifications
from .targets.meant import Target
from .targets.targets import (
    ServerEntry,
    TargetOptions,
    is_configuration,
    is_of_one_user,
    no_option,
    transports_of,
)

if TYPE_CHECKING:
    from .asking.sampling import SampleHandler, Sampler
    from .observability.recording import Recorder
    from .observability.telemetry import ClientTelemetry
    from .observability.trace import Trace

T = TypeVar("T")

_INFO: Final = {"name": "mcpkit", "version": __version__}


class Client(Caller):
    """A client of one server, whatever its transport and its revision.

        async with Client("server.py") as client:
            result = await client.call("forecast", {"city": "Oslo"})

    It may be used by many tasks at once, and closed in another task than it was opened in. It can be opened again.

    Args:
        target: The server: an object; a script (`"server.py"`), or a folder with one; a command, as a list; a URL; a
            transport; an ASGI app; an entry of a host's configuration, a whole one, or the path of its file.
        revision: The revision to speak; None for the newest that both know.
        info: The client's `Implementation`.
        elicit: Fills in forms that the server wants the user to fill in; gets a `FormRequest`, and returns what its
            `result` takes. This and the next two may be `async`. The server may ask what there is a handler for.
        elicit_url: Shows the user pages that the server wants visited; gets a `UrlRequest`, and returns whether the
            user consents.
        sample: Has a model speak; gets a `SampleRequest`, and returns a text, or more. Or a `Sampler`.
        roots: The folders that the server is to stay within, as paths or URIs; or a function that finds them.
        answerer: What answers the server's questions in place of these four.
        rounds: How many rounds of questions a request of the stateless era may take; 0 leaves results that ask to the
            caller.
        timeout: Seconds without an answer and without progress after which a request is given up; None for any number.
        max_timeout: Seconds after which a request is given up whatever comes: all its tries, and what it takes to
            connect again; None for any number.
        connect_timeout: Seconds that it may take to connect and to agree upon a revision.
        validate: Whether what tools answer is held against their `outputSchema`.
        cache: Whether results are used again for as long as the server says that they hold, until a change is heard.
        log: Called with level, data and logger's name (or None) of each log message of the server's.
        log_level: The least severe level that the server is to log; None for what it chooses, and in the stateless era
            for nothing. `set_log_level` changes it.
        notification: Called with method and params of each notification of the server's that belongs to no request:
            those of extensions, and all others, too. It, `log` and `progress` may be `async`: then they are awaited one
            after the other.
        tries: How often a request is tried in all when the way to the server has broken and nothing is done twice.
        longest_wait: Seconds that are waited at most where a server says when to come back.
        trace: True to show each message on standard error; or a function that is called with `sent` or `came`, and the
            message as text. Secrets are masked in either.
        record: A file to which each message is written, for `Replay`; secrets are masked there, too.
        telemetry: What makes spans of requests.
        options: How the server is reached, see `TargetOptions`: `env=`, `cwd=` and `stderr=` of a process; `headers=`,
            `token=`, `auth=`, `verify=`, `cert=`, `proxy=`, `trust_env=` and `http_client=` of a URL; `path=` of an
            ASGI app; `max_answer=`.

    Raises:
        FileNotFoundError: There is no such file or folder.
        TypeError: The target is nothing that can be connected to.
        ValueError: It cannot be connected to, or an option is not for it; or there is no such revision.
    """

    def __init__(
        self,
        target: Target | ServerEntry,
        *,
        revision: str | None = None,
        info: Json | None = None,
        elicit: ElicitHandler | None = None,
        elicit_url: UrlHandler | None = None,
        sample: SampleHandler | Sampler | None = None,
        roots: Roots | None = None,
        answerer: Answerer | None = None,
        rounds: int = ROUNDS,
        timeout: float | None = None,
        max_timeout: float | None = None,
        connect_timeout: float | None = 60.0,
        validate: bool = True,
        cache: bool = True,
        log: Log | None = None,
        log_level: str | None = None,
        notification: Notified | None = None,
        tries: int = 3,
        longest_wait: float = 30.0,
        trace: Trace | bool = False,
        record: str | os.PathLike[str] | None = None,
        telemetry: ClientTelemetry | None = None,
        **options: Unpack[TargetOptions],
    ) -> None:
        if unknown := options.keys() - TargetOptions.__optional_keys__:
            raise no_option(min(unknown), Client.__init__.__kwdefaults__ or ())
        check_seconds("timeout", timeout, may_be_none=True)
        check_seconds("max_timeout", max_timeout, may_be_none=True)
        check_count("rounds", rounds, least=0)
        if telemetry is not None and not hasattr(telemetry, "measured"):
            raise TypeError(f"telemetry must be a ClientTelemetry, got {telemetry!r}")
        [entry] = transports_of(target, **options)
        questions = Questions(elicit=elicit, elicit_url=elicit_url, sample=sample, roots=roots)
        negotiation = Negotiation(revision, connect_timeout)
        link = Link(
            entry.transports, negotiation, stay=entry.stay, info=info or _INFO, answerer=answerer or questions
        )
        ask = self._answer if telemetry is None else partial(telemetry.measured, self._answer, link)
        super().__init__(link, questions, ask, validates=validate)
        self._timeout = entry.timeout if timeout is None else timeout
        self._max_timeout = max_timeout
        self._rounds = rounds
        self._cache = ResultCache(None if cache else 0, keeps_private=is_of_one_user(options))
        self._subscribed = Subscribed(self._link)
        self._link.listeners.add(self._cache.hear)
        for transport in entry.transports:
            if isinstance(transport, HasAuthorization):
                transport.reauthorized.add(self._cache.clear)
        self._link.renewals.append(self._begin_anew)
        self._retrying = Retrying(tries, longest_wait)
        self._log = ServerLog(self._link, log, log_level)
        if notification is not None:
            hear_notifications(self._link, notification)
        self._recorder: Recorder | None = None
        if trace or record is not None:
            from .observability.trace import look_at_frames

            self._recorder = look_at_frames(self._link, trace, record, options)

    async def close(self) -> None:
        """End all that waits, and leave the server; called again it does nothing."""
        await super().close()
        if self._recorder is not None:
            self._recorder.close()

    _of_several: ClassVar[type[Client] | None] = None

    def __init_subclass__(cls, *, is_of_several: bool = False) -> None:
        """Take a subclass, which may be the one that is made of configurations."""
        if is_of_several:
            Client._of_several = cls

    if not TYPE_CHECKING:

        @wraps(__init__, assigned=())
        def __new__(cls, target: object, *arguments: object, **options: object) -> Self:
            """Make a client; of a configuration, the one that has its servers under one roof."""
            return super().__new__(
                (Client._of_several if cls is Client and is_configuration(target) else None) or cls
            )

    # The servers

    @property
    def servers(self) -> Mapping[str, Client]:
        """The clients of the servers of a configuration, by name; otherwise there is one that is called `server`."""
        return {"server": self}

    @property
    def failures(self) -> Mapping[str, Exception]:
        """Why servers of a configuration are left out, by name: they could not be reached."""
        return {}

    # What it asks

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        progress: Progress | None = None,
        log_level: str | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
        retry: bool | None = None,
        fresh: bool = False,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> Coroutine[Any, Any, Json]:
        """Send any request; to be awaited for its result, once the server has asked all that it wants to know.

        Args:
            method: The method.
            params: Its params; the `_meta` that the revision wants is added.
            progress: Called with done, total and message at each progress notification.
            log_level: The level to ask for in this request; stateless revisions only.
            timeout: As for the client, which says what holds where this is None.
            max_timeout: The same.
            retry: Whether it may be done twice; None where its method says so.
            fresh: Whether to ask also where a result is kept that still holds.
            headers: What is said in HTTP headers, too; other transports have none.

        Raises:
            ProtocolError: The server answered with an error.
            TimeoutError: The time is over; the server has been told.
            OutcomeUnknownError: It may or may not have been done.
            ConnectionError: The server cannot be reached, or its answer did not come back.
        """
        rest = (progress, log_level, timeout, max_timeout, retry, headers, fresh)
        return self._ask(method, params, *rest)

    async def _answer(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        progress: Progress | None = None,
        log_level: str | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
        retry: bool | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        fresh: bool = False,
    ) -> Json:
        link = self._link
        told = params
        if log_level is not None or self._log.level is not None:
            told = self._log.params(params, log_level)
        quiet = self._timeout if timeout is None else timeout
        longest = self._max_timeout if max_timeout is None else max_timeout
        began = 0.0 if longest is None else time.monotonic()
        try:
            if self._cache.keeps_any and method in METHODS and link.wire.revision in STATELESS:
                is_shared = progress is None and timeout is None and max_timeout is None
                link.home.check()  # before it waits for what another loop is answered
                once = partial(link.request, method, told, progress, quiet, longest, headers)
                result = await self._cache.answer(
                    method, params or {}, once, fresh=fresh, is_shared=is_shared
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
                    raise TimeoutError(f"{method} was not answered within {longest:g} s: {error}") from error
        if result.get("resultType") != "input_required" or not self._rounds:
            return result
        one_round = partial(self._round, method, retry, (progress, quiet, longest, headers))
        return await answered(one_round, method, dict(told or {}), result, link.answerer, self._rounds)

    async def _in_spite_of(
        self, error: Exception, again: Callable[[], Awaitable[Json]], method: str, retry: bool | None
    ) -> Json:
        """Ask again after an error, where that may help; raises the error where it may not."""
        if isinstance(error, TransportError):
            return await self._retrying.go_on(error, again, method, retry)
        if not isinstance(error, ProtocolError) or error.code != URL_ELICITATION_REQUIRED:
            raise error
        once_more = partial(self._retrying.ask, again, method, retry)
        visit = partial(self._link.answerer.answer, "elicitation/create")
        return await visited(error, once_more, visit, self._link.listeners)

    async def _round(self, method: str, retry: bool | None, rest: tuple[Any, ...], params: Json) -> Json:
        again = partial(self._link.request, method, params, *rest)
        return await self._retrying.ask(again, method, retry)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> Awaitable[None]:
        """Send a notification; what is returned need not be awaited, and is done when it has been sent."""
        return self._link.notify(method, params)

    async def list_resources(self, *, fresh: bool = False) -> list[Json]:
        """Return all resources, page by page; `fresh` asks also where a list is kept that still holds."""
        return await self._list("resources/list", "resources", fresh)

    async def list_resource_templates(self, *, fresh: bool = False) -> list[Json]:
        """Return all resource templates, page by page; `fresh` asks also where a list is kept that still holds."""
        return await self._list("resources/templates/list", "resourceTemplates", fresh)

    async def list_prompts(self, *, fresh: bool = False) -> list[Json]:
        """Return all prompts, page by page; `fresh` asks also where a list is kept that still holds."""
        return await self._list("prompts/list", "prompts", fresh)

    async def read(self, uri: str, *, fresh: bool = False) -> list[Json]:
        """Read a resource and return its contents.

        Args:
            uri: Its URI.
            fresh: Whether to read also where contents are kept that still hold.

        Raises:
            ProtocolError: The server answered with an error, for example because there is no such resource; or a
                member of its result cannot be read, which the message names.
        """
        return resource_contents(await self.request("resources/read", {"uri": uri}, fresh=fresh), uri)

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> list[Json]:
        """Get a prompt and return its messages.

        Raises:
            ProtocolError: The server answered with an error; or a member of its result cannot be read, which the
                message names.
        """
        params = {"name": name, "arguments": arguments or {}}
        return prompt_messages(await self.request("prompts/get", params))

    async def complete(
        self, reference: str, argument: str, value: str, arguments: Mapping[str, str] | None = None
    ) -> list[str]:
        """Complete an argument and return the values.

        Args:
            reference: A prompt's name, or a resource template's URI template.
            argument: The argument's name.
            value: What has been typed.
            arguments: The arguments already filled in.

        Raises:
            ProtocolError: The server answered with an error.
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

    def watch(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool | str | Iterable[str] = False,
        resource_list: bool = False,
    ) -> Watch:
        """Hear of what changes at the server: `async with client.watch(tools=True) as changes`, and then `async for`.

        Without arguments it hears of each list that the server tells of.

        Args:
            tools: Whether to hear of the list of tools.
            prompts: Whether to hear of the list of prompts.
            resources: The URI, or URIs, of resources to hear of, or of templates where the server knows that; True for
                the list of resources and templates.
            resource_list: Whether to hear of that list, beside single resources.

        Raises:
            TypeError: URIs are no strings.
            ValueError: It is an empty collection of URIs, and nothing else is asked for.
        """
        wanted = Wanted.of(tools=tools, prompts=prompts, resources=resources, resource_list=resource_list)
        listening = Listening(self._link, self._subscribed, wanted, self._cache.hear, self._timeout)
        return Watch(wanted, listening.listen)

    async def set_log_level(self, level: str) -> None:
        """Say which log messages the server is to send from now on, on this connection and on later ones.

        Args:
            level: The least severe level, such as `warning`.

        Raises:
            ProtocolError: There is no such level, or the server does not log.
        """
        if self._log.want(level):
            await self.request("logging/setLevel", {"level": level})

    async def _begin_anew(self) -> None:
        self._cache.clear()  # it may be another server now
        self._tools.forget()

    async def _list(self, method: str, member: str, fresh: bool) -> list[Json]:
        cache, link = self._cache, self._link
        link.home.check()

        async def page(params: Json) -> Json:
            told = self._log.params(params)
            ask = partial(link.request, method, told, None, self._timeout, self._max_timeout)
            return await self._retrying.ask(ask, method, None)

        def pages() -> Awaitable[Json]:
            return all_pages(method, member, page, changes=lambda: cache.changes(method), clock=cache.clock)

        if cache.keeps_any:
            may_share = link.wire.revision in STATELESS
            whole = await cache.answer(method, ALL_PAGES, pages, fresh=fresh, is_shared=may_share)
        else:
            whole = await pages()
        return objects(whole, member, method)
