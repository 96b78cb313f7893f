"""A session of versions before 2026-07-28: its id, and the stream of notifications (GET).

In 2026-07-28 there is neither; a session object without an id stands for that.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ..._utils.exceptions import TransportError
from ...execution.coroutines import within
from ..link.transport import TransportListener
from .cancellation import unhurt
from .headers import Pairs, header
from .http_client import HttpClient
from .stream import MOST_FAILURES, MessageStream

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger(__name__)

LONGEST_WAIT = 30.0
"""Seconds that lie at most between two tries to join the stream of a server that is away."""

_TIMEOUT = 1.0
"""Seconds that the first call waits for the stream of notifications (GET)."""
_FAREWELL = 2.0
"""Seconds that the server has to take note that the session ends."""
_SESSION_ID = re.compile(rb"[!-~]+")


class HttpSession:
    """The session between client and server after `initialize` (basic/transports, "Session Management").

    Args:
        http: Sends requests.
        receiver: Receives the messages of the stream.
        lost: Called when the server no longer knows the session.
        missed: Called when notifications may have been missed.

    Attributes:
        id: The session id; None if there is no session.
        is_gone: Whether the server no longer knows the session.
    """

    def __init__(
        self,
        http: HttpClient,
        receiver: TransportListener,
        lost: Callable[[TransportError], object],
        missed: Callable[[], object],
    ) -> None:
        self.id: bytes | None = None
        self.is_gone = False
        self._http = http
        self._receiver = receiver
        self._lost = lost
        self._missed = missed
        self._headers: Pairs = []
        self._listening: asyncio.Task[None] | None = None
        self._has_joined = asyncio.Event()

    def begin(self, response: httpx2.Response) -> None:
        """Take the id from the answer of `initialize`.

        Raises:
            TransportError: It is none that a header can have.
        """
        id_ = header(response, b"mcp-session-id")
        if id_ and not _SESSION_ID.fullmatch(id_):
            message = f"{self._http.origin} sent an Mcp-Session-Id with characters other than visible ASCII"
            raise TransportError(message, may_have_begun=True, may_pass=False)
        self.id = id_ or None
        self._headers = self.headers(None)

    def headers(self, revision: str | None) -> Pairs:
        """Return the headers of all requests of the session."""
        headers: Pairs = []
        if revision is not None:
            headers.append((b"MCP-Protocol-Version", revision.encode("ascii")))
        if self.id is not None:
            headers.append((b"Mcp-Session-Id", self.id))
        return headers

    async def listen(self, revision: str | None) -> None:
        """Open the stream of notifications if there is a session, and wait up to a second for it.

        Servers may send requests on it during a call. Some drop them if the stream is not open yet.
        """
        self._headers = self.headers(revision)
        if self.id is not None and self._listening is None:
            self._listening = asyncio.get_running_loop().create_task(self._listen())
            with suppress(TimeoutError):
                await within(_TIMEOUT, self.listening())

    async def listening(self) -> bool:
        """Wait until the stream is open or known to be unavailable, and return whether it is open."""
        if self._listening is None:
            return False
        joining = asyncio.ensure_future(self._has_joined.wait())
        try:
            await asyncio.wait((joining, self._listening), return_when=asyncio.FIRST_COMPLETED)
        finally:
            joining.cancel()
        return self._has_joined.is_set()

    async def _listen(self) -> None:
        stream = MessageStream(
            self._http, self._receiver, self._headers, joined=self._has_joined.set, missed=self._missed
        )
        while True:
            try:
                broken = await unhurt(stream.join)
                assert broken is not None, "the stream must not answer a request"
            except TransportError as error:
                if not stream.connections:
                    return  # the server has no such stream
                if error.session_is_gone:
                    self.is_gone = True
                    self._lost(error)
                    return
                stream.events.last_id = None  # there may be one, if not from there on
                broken = error
            except Exception:
                logger.exception(
                    "authentication failed with an exception; the client no longer receives notifications and "
                    "requests of the server. Correct auth=, and open the client again"
                )
                return
            if not stream.connections and stream.failures >= MOST_FAILURES:
                return
            # A server that is away comes back some time, and calls say meanwhile that it is away.
            wait = stream.wait(broken)
            await asyncio.sleep(max(wait, min(LONGEST_WAIT, wait * 2 ** min(stream.failures - 1, 10))))

    async def close(self, *, says_farewell: bool) -> None:
        """End the session.

        Args:
            says_farewell: Whether to send DELETE. The server may refuse it (405), and has two seconds.
        """
        self._has_joined.clear()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait((self._listening,))
        if self.id is not None and says_farewell and not self.is_gone:
            with suppress(Exception):  # nobody is kept from leaving
                await within(_FAREWELL, self._farewell())

    async def _farewell(self) -> None:
        response = await self._http.ask("DELETE", self._headers, may_ask=False)
        await self._http.finish(response)
