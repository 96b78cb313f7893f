"""Opening and closing of a client, and the properties that it negotiated with the server."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from typing_extensions import Self

from .._utils.concurrency import require_loop
from ..protocol.revisions import STATELESS
from .asking.questions import Questions, Roots
from .client_session import FOR_OTHERS, NOT_OPEN, ClientSession, NegotiationResult

if TYPE_CHECKING:
    from ..protocol.objects import Implementation, ServerCapabilities


class Connected:
    """Base of `Client` with its lifecycle and the properties of the connected server.

    Args:
        link: The link to the server.
        questions: The handler of requests from the server.
    """

    _entered = 0
    """The number of open `async with` blocks. The client is closed when the last of them is left."""

    def __init__(self, link: ClientSession, questions: Questions) -> None:
        self._link = link
        self._questions = questions
        questions.server_info = self._known_info

    # Its life

    async def __aenter__(self) -> Self:
        """Connect and negotiate a protocol version, unless the client is open already.

        Raises:
            RuntimeError: No asyncio event loop is running, or the client is open in another event loop.
            Exception: The client cannot connect to the server.
        """
        require_loop("the client", FOR_OTHERS)
        self._check_here()
        self._entered += 1
        try:
            await self._begin()
        except BaseException:
            await self._leave()
            raise
        return self

    async def _begin(self) -> None:
        await self._link.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the client, unless another block still uses it."""
        await self._leave()

    async def _leave(self) -> None:
        self._check_here()
        self._entered -= 1
        if self._entered <= 0:
            await self.close()

    async def close(self) -> None:
        """Cancel pending requests and disconnect from the server, also if several blocks use the client.

        Closing a closed client does nothing.
        """
        self._check_here()
        self._entered = 0
        await self._link.close()

    def _check_here(self) -> None:
        self._link.affinity.check(is_leaving=True)

    # What was agreed upon

    @property
    def protocol_version(self) -> str:
        """The negotiated protocol version.

        Raises:
            ConnectionError: The client has not been opened yet.
        """
        return self._agreed.revision

    @property
    def protocol_version_reason(self) -> str:
        """An explanation why this protocol version was chosen.

        Raises:
            ConnectionError: The client has not been opened yet.
        """
        return self._agreed.reason

    @property
    def server_info(self) -> Implementation:
        """The `Implementation` of the server, such as `name` and `version`.

        Raises:
            ConnectionError: The client has not been opened yet.
        """
        return self._agreed.info

    @property
    def server_capabilities(self) -> ServerCapabilities:
        """The capabilities that the server declares.

        Raises:
            ConnectionError: The client has not been opened yet.
        """
        return self._agreed.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for a model, or None.

        Raises:
            ConnectionError: The client has not been opened yet.
        """
        return self._agreed.instructions

    def _known_info(self) -> Mapping[str, object]:
        return {} if self._link.negotiated is None else self._link.negotiated.info

    @property
    def _agreed(self) -> NegotiationResult:
        if self._link.negotiated is None:
            raise ConnectionError(NOT_OPEN)
        return self._link.negotiated

    @property
    def roots(self) -> Roots | None:
        """The folders that the server may use, as they were given to the client.

        They can be set at any time. An open client then notifies servers of versions before 2026-07-28 that the roots
        have changed.

        Raises:
            ValueError: On setting: the session of a version before 2026-07-28 was opened without roots.
        """
        return self._questions.roots

    @roots.setter
    def roots(self, roots: Roots | None) -> None:
        link = self._link
        if link.is_open and link.wire.revision not in STATELESS and "roots" not in link.wire.capabilities:
            raise ValueError(
                "the client was connected without roots, so they cannot be set in this session. "
                "Create it with roots=[] to set them later"
            )
        self._questions.roots = roots
        if link.is_open and link.wire.revision in STATELESS:
            link.use_revision(link.wire.revision)
        elif link.is_open:
            link.notify("notifications/roots/list_changed")
