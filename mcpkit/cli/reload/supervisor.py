"""`mcpkit run --reload` over stdio: keeps the client's pipe open, and replaces the server process after edits."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from itertools import count
from pathlib import Path
from typing import Final

from ..._utils.exceptions import INVALID_REQUEST, ProtocolError
from ..._utils.python_safe_path import mcpkit_command
from ...protocol.jsonrpc import Json, RequestId, is_id, is_object, object_at
from ...protocol.revisions import SUBSCRIPTION_ID
from ...storage.base import SECRET_VARIABLE
from ...transports.standard_streams import (
    StandardStreams,
    keep_standard_descriptors,
    take_over_standard_streams,
)
from .child_and_client import Child, ChildEndedError, ClientPipe
from .file_watcher import edited_files, watch_roots
from .session_state import (
    ServerLists,
    SessionState,
    Subscription,
    failure_response,
    is_stateless,
    meta_of,
    params_of,
)

DRAIN: Final = 2.0
"""Seconds that running requests get in the old process after an edit."""

WAIT: Final = 10.0
"""Seconds that requests wait for a starting process."""

END: Final = 5.0
"""Seconds to complete requests after the end of input."""

_INTERRUPTED: Final = "The server was reloaded during this request, which may or may not have been executed."


# The command


def run_reload_over_stdio(target: str, arguments: Sequence[str], options: Sequence[str] = ()) -> int:
    """Serve over standard input and output, and restart the server process when its code is edited.

    Args:
        target: The server on the command line.
        arguments: Arguments of the server's own script.
        options: More options of `mcpkit run`.

    Returns:
        The exit status: 0 at the end of input, or 128 plus the signal number.

    Raises:
        CommandError: The target is neither a file nor a module, or watchfiles is not installed.
        FileNotFoundError: The file does not exist.
    """
    roots = watch_roots(target)
    print_status(f"serving {target}, watching Python files in {', '.join(map(str, roots))}")
    command = mcpkit_command("run", *options, target, "--", *arguments)
    with keep_standard_descriptors(), take_over_standard_streams() as streams:
        return asyncio.run(_serve_until_signal(command, roots, streams))


async def _serve_until_signal(command: Sequence[str], roots: list[Path], streams: StandardStreams) -> int:
    signals: list[int] = []
    async with aclosing(edited_files(roots)) as edits:
        serving = asyncio.ensure_future(Supervisor(command, child_environment(), edits, streams).serve())

        def stop(number: int) -> None:
            signals.append(number)
            serving.cancel()

        handle_signals(stop)
        try:
            await serving
        except asyncio.CancelledError:
            if not signals:
                raise
    return 128 + signals[0] if signals else 0


def handle_signals(stop: Callable[[int], None]) -> None:
    """Call a function with the number of a signal that ends the command."""
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # on Windows, where SIGINT raises KeyboardInterrupt
            asyncio.get_running_loop().add_signal_handler(number, stop, number)


def child_environment() -> dict[str, str]:
    """Return the environment of every process of one server.

    The secret key is shared, so that a process accepts tokens that an earlier one has signed. No bytecode is written:
    Python would not notice two edits within a second that leave the size unchanged.
    """
    return {
        **os.environ,
        SECRET_VARIABLE: os.environ.get(SECRET_VARIABLE) or secrets.token_urlsafe(32),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def print_status(text: str) -> None:
    """Write a line for the author to standard error."""
    with suppress(OSError):
        print(f"mcpkit: {text}", file=sys.stderr, flush=True)


def print_edits(paths: list[str]) -> None:
    """Write the names of edited files to standard error."""
    print_status(f"changed: {', '.join(Path(path).name for path in paths)}")


# The supervisor


class Supervisor:
    """Forwards messages between a client and the current server process, and restarts that process after edits.

    Args:
        command: The command that starts a server process, which serves over stdio.
        environment: Its complete environment.
        edits: Yields an empty list at first, then the paths of each group of edited files.
        streams: The standard streams that are connected to the client.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        edits: AsyncGenerator[list[str]],
        streams: StandardStreams,
    ) -> None:
        self._command = command
        self._environment = environment
        self._edits = edits
        self._client = ClientPipe(streams, self._receive_from_client)
        self._session = SessionState()
        self._client_ids = count()
        self._forwarded: dict[RequestId, tuple[Child, object]] = {}
        """Requests of processes by the id that the client has, since two processes may use the same one."""
        self._running: dict[RequestId, tuple[Child, Json]] = {}
        self._waiting: dict[RequestId, tuple[Json, asyncio.TimerHandle]] = {}
        self._current: Child | None = None
        """The process that serves requests; None while it starts and after a failure."""
        self._problem: str | None = None
        """The error for all requests until the next edit."""
        self._is_edited = asyncio.Event()
        self._has_changed = asyncio.Event()
        """Set when requests have completed, or the process has ended."""
        self._listing: asyncio.Task[None] | None = None
        self._initializing: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Serve until the client closes the pipe, then wait for running requests for at most `END` seconds."""
        await anext(self._edits)  # from here on edits are noticed
        processes = asyncio.ensure_future(self._run_processes())
        watch = asyncio.ensure_future(self._watch())
        closed = asyncio.ensure_future(self._client.closed.wait())
        try:
            done, _ = await asyncio.wait((processes, watch, closed), return_when=asyncio.FIRST_COMPLETED)
            for each in done - {closed}:
                each.result()
            if not self._client.is_output_closed:
                await self._wait_until(lambda: not self._running and not self._waiting, END)
        finally:
            for each in (processes, watch, closed):
                each.cancel()
            await asyncio.gather(processes, watch, closed, return_exceptions=True)
            await self._client.aclose()

    # Starting and stopping processes

    async def _watch(self) -> None:
        async for paths in self._edits:
            print_edits(paths)
            self._is_edited.set()
            self._current = self._problem = None  # requests from now on wait for the new code
        raise AssertionError("the file watcher of --reload stopped. Run the command again")

    async def _run_processes(self) -> None:
        """Run one process after the other, each until the next edit."""
        is_first = True
        while True:
            self._is_edited.clear()
            started_at = time.monotonic()
            child = Child(self._command, self._environment, self._receive_from_server, self._on_exit)
            try:
                start = asyncio.ensure_future(self._start(child))
                edited = asyncio.ensure_future(self._is_edited.wait())
                try:
                    await asyncio.wait((start, edited), return_when=asyncio.FIRST_COMPLETED)
                    if start.done():
                        seconds = None if is_first else time.monotonic() - started_at
                        self._activate(child, start.result(), seconds)
                        is_first = False
                        await edited
                finally:
                    start.cancel()
                    edited.cancel()
                    await asyncio.gather(start, edited, return_exceptions=True)
                await self._retire(child)
            finally:
                await child.stop()

    async def _start(self, child: Child) -> ServerLists | None:
        """Start a process, and bring it to the state of the session.

        Returns:
            Its lists; None if the client has not initialized the session, or the process has ended.
        """
        try:
            await child.start()
            return await self._restore_session(child)
        except ChildEndedError as error:
            self._fail(str(error))
            return None

    async def _restore_session(self, child: Child) -> ServerLists | None:
        session = self._session
        initialize = session.initialize
        if initialize is not None:
            try:
                response: Json = {"result": await child.request("initialize", session.initialize_params)}
            except ProtocolError as problem:
                response = {"error": {"code": problem.code, "message": str(problem)}}
            self._complete_initialize(initialize, response)
            if "error" in response or not session.is_initialized:
                return None
            self._send_initialized(child)
            requests: list[tuple[str, Json]] = []
            if session.log_level is not None:
                requests.append(("logging/setLevel", {"level": session.log_level}))
            requests += [("resources/subscribe", {"uri": uri}) for uri in session.subscribed]
            for method, params in requests:
                with suppress(ProtocolError):  # the feature is missing now, and may return with the next edit
                    await child.request(method, params)
        elif session.meta is not None:
            with suppress(ProtocolError):
                discovered = await child.request("server/discover", session.request_params)
                session.complete_response({"id": 0, "method": "server/discover"}, {"result": discovered})
            for subscription in session.subscriptions.values():
                child.send(subscription.request)
        if not session.is_ready:
            return None
        lists = ServerLists()
        await lists.fetch(child, session.request_params)
        return lists

    def _complete_initialize(self, initialize: Json, response: Json) -> None:
        """Record the negotiated revision, and respond to the client's `initialize` unless that has been done."""
        complete = self._session.complete_response(initialize, response)
        session = self._session
        revision: object = object_at(complete, "result").get("protocolVersion")
        if session.revision is None:
            if isinstance(revision, str):
                session.revision = revision
            else:
                session.initialize = None
            self._client.send({"jsonrpc": "2.0", **complete, "id": initialize["id"]})
        elif revision != session.revision:
            print_status(f"the server no longer supports revision {session.revision}. Reconnect the host")

    def _send_initialized(self, child: Child) -> None:
        child.is_initialized = True
        child.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _activate(self, child: Child, lists: ServerLists | None, seconds: float | None) -> None:
        """Make a process the current one; after a restart notify the client of changed lists."""
        if child.problem is not None or self._is_edited.is_set():
            return
        self._current, self._problem = child, None
        if (
            self._session.is_initialized and not child.is_initialized
        ):  # the notification came during the start
            self._send_initialized(child)
        before = self._session.lists
        self._session.lists = lists or before
        if seconds is not None:
            differences = {} if lists is None else before.differences(lists)
            summary = ", ".join(f"{kind} {counts}" for kind, counts in differences.items() if counts)
            print_status(f"reloaded in {seconds:.1f} s" + (f": {summary}" if summary else ""))
            for each in self._session.change_notifications(set(differences)):
                self._client.send(each)
        self._dispatch_waiting()

    async def _retire(self, child: Child) -> None:
        """Wait `DRAIN` seconds for the running requests of a process, then respond to the rest with errors."""
        self._current = self._problem = None
        listing = self._listing  # its lists are compared with those of the next process
        await self._wait_until(
            lambda: (
                (listing is None or listing.done())
                and child not in [each for each, _ in self._running.values()]
            ),
            DRAIN,
        )
        if listing is not None:
            listing.cancel()
        child.is_retired = True
        self._abort_requests(child, _INTERRUPTED)

    def _abort_requests(self, child: Child, problem: str) -> None:
        """Respond to running requests of a process with errors, and cancel its own requests to the client."""
        for id_, (server, request) in list(self._running.items()):
            if server is child:
                del self._running[id_]
                child.send(
                    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_}}
                )
                self._client.send(failure_response(request, problem))
        self._cancel_forwarded(child)
        self._has_changed.set()

    def _cancel_forwarded(self, child: Child) -> None:
        """Cancel the requests of a process at the client."""
        for id_ in [id_ for id_, (sender, _) in self._forwarded.items() if sender is child]:
            del self._forwarded[id_]
            params = {"requestId": id_, "reason": "the server process that sent the request was stopped"}
            self._client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    async def _wait_until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Wait until a condition holds, for at most some seconds."""
        deadline = time.monotonic() + seconds
        while not condition() and (rest := deadline - time.monotonic()) > 0:
            self._has_changed.clear()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._has_changed.wait(), rest)

    def _fail(self, problem: str) -> None:
        """Respond to requests with an error until the next edit, because the code cannot run."""
        if self._problem is not None:
            return
        self._current = None
        self._problem = (
            f"The server cannot start: {problem}\nFix the code. The server restarts after the next edit."
        )
        print_status("waiting for the next edit; until then every call fails with this error")
        initialize = self._session.initialize
        if initialize is not None and self._session.revision is None:
            self._respond(initialize, self._problem)
        self._dispatch_waiting()

    def _on_exit(self, child: Child) -> None:
        problem = child.problem or ""
        if child.has_answered:
            self._abort_requests(
                child,
                f"The server process ended, and this request may or may not have been executed: {problem}",
            )
        unanswered = [request for server, request in self._running.values() if server is child]
        self._running = {id_: each for id_, each in self._running.items() if each[0] is not child}
        self._cancel_forwarded(child)
        self._fail(problem)
        for request in unanswered:
            self._respond(request, self._problem or problem)

    # Messages of the client

    def _receive_from_client(self, message: object) -> None:
        id_: object = message.get("id") if is_object(message) else None
        method: object = message.get("method") if is_object(message) else None
        if not is_object(message) or (method is not None and not isinstance(method, str)):
            self._reject("a message must be an object with a method, or a response")
        elif method is None:
            if is_id(id_) and id_ in self._forwarded:  # others are of a process that has ended
                child, original_id = self._forwarded.pop(id_)
                child.send({**message, "id": original_id})
        elif "id" not in message:
            self._forward_client_notification(message)
        elif not is_id(id_) or id_ in self._waiting:
            self._reject("the id of a request must be a unique string or integer")
        else:
            self._session.record_request(message)
            self._dispatch(message)

    def _reject(self, reason: str) -> None:
        error = {"code": INVALID_REQUEST, "message": f"Invalid request: {reason}"}
        self._client.send({"jsonrpc": "2.0", "error": error})

    def _dispatch(self, request: Json) -> None:
        """Send a request to the current process, respond to it here, or queue it until a process runs."""
        child, method = self._current, request["method"]
        if child is None:
            if self._problem is not None or method == "ping":
                self._respond(request, self._problem or "")
            else:
                timer = asyncio.get_running_loop().call_later(WAIT, self._on_start_timeout, request["id"])
                self._waiting[request["id"]] = request, timer
        elif method == "initialize" and self._session.initialize is None:
            self._session.initialize = request
            self._current = None
            self._initializing = asyncio.ensure_future(self._initialize_session(child))
        else:
            if method == "subscriptions/listen":
                self._session.subscriptions[request["id"]] = Subscription(request)
            else:
                self._running[request["id"]] = child, request
            child.send(request)

    def _dispatch_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for request, timer in waiting.values():
            timer.cancel()
            self._dispatch(request)
        self._has_changed.set()

    async def _initialize_session(self, child: Child) -> None:
        with suppress(ChildEndedError):  # `_on_exit` responds to the request
            await self._restore_session(child)
            if not child.is_retired:
                self._activate(child, None, None)

    def _on_start_timeout(self, id_: RequestId) -> None:
        request, _ = self._waiting.pop(id_)
        self._respond(request, f"The server did not start within {WAIT:g} s. Try again later.")
        self._has_changed.set()

    def _respond(self, request: Json, problem: str) -> None:
        """Respond to a request in place of the server."""
        session = self._session
        if request["method"] == "subscriptions/listen":
            subscription = Subscription(request, is_acknowledged=True)
            session.subscriptions[request["id"]] = subscription
            self._client.send(subscription.acknowledgement())
            return
        response = session.fallback_response(request, problem)
        if request["method"] == "initialize" and session.revision is None:
            session.initialize = request
            session.revision = response["result"]["protocolVersion"]
        if "result" in response:
            session.record_success(request)
        self._client.send(response)

    def _forward_client_notification(self, notification: Json) -> None:
        child = self._current
        method, id_ = notification["method"], params_of(notification).get("requestId")
        if method == "notifications/initialized":
            self._session.is_initialized = True
            if child is not None:
                self._send_initialized(child)
                self._refresh_lists(child)
            return
        if method == "notifications/cancelled" and is_id(id_):
            if id_ in self._waiting:
                self._waiting.pop(id_)[1].cancel()
            self._session.subscriptions.pop(id_, None)
            child, _ = self._running.pop(id_, (child, notification))
            self._has_changed.set()
        if child is not None:
            child.send(notification)

    # Messages of a server process

    def _receive_from_server(self, child: Child, message: Json) -> None:
        if "method" not in message:
            self._forward_response(child, message)
        elif "id" in message:
            client_id = next(self._client_ids)
            self._forwarded[client_id] = child, message["id"]
            self._client.send({**message, "id": client_id})
        else:
            self._forward_server_notification(child, message)

    def _forward_response(self, child: Child, response: Json) -> None:
        id_: object = response.get("id")
        if is_id(id_):
            self._session.subscriptions.pop(id_, None)
            server, request = self._running.get(id_, (None, response))
            if server is child:
                del self._running[id_]
                self._has_changed.set()
                if "result" in response:
                    self._session.record_success(request)
                response = self._session.complete_response(request, response)
                if is_stateless(request) and "result" in response and self._listing is None:
                    self._refresh_lists(child)
        self._client.send(response)

    def _forward_server_notification(self, child: Child, notification: Json) -> None:
        method, params = notification["method"], params_of(notification)
        if method == "notifications/cancelled" and is_id(id_ := params.get("requestId")):
            client_ids = [each for each, origin in self._forwarded.items() if origin == (child, id_)]
            if client_ids:
                [client_id] = client_ids
                del self._forwarded[client_id]
                notification = {**notification, "params": {**params, "requestId": client_id}}
            else:
                self._session.subscriptions.pop(id_, None)
        elif method == "notifications/subscriptions/acknowledged":
            subscription = self._session.subscriptions.get(meta_of(notification).get(SUBSCRIPTION_ID, ""))
            if subscription is not None:
                if subscription.is_acknowledged:
                    return
                subscription.is_acknowledged = True
                notification = subscription.acknowledgement(params.get("notifications"))
        elif method.endswith("/list_changed") and child is self._current:
            self._refresh_lists(child)
        self._client.send(notification)

    def _refresh_lists(self, child: Child) -> None:
        """Fetch the lists of a process in the background, to compare them with those of the next one."""
        if self._listing is not None:
            self._listing.cancel()
        self._listing = asyncio.ensure_future(self._fetch_lists(child))

    async def _fetch_lists(self, child: Child) -> None:
        with suppress(ChildEndedError):
            await self._session.lists.fetch(child, self._session.request_params)
        self._has_changed.set()
