"""A client's life, and what it knows of its server and tells it as long as it is open."""

from __future__ import annotations

from types import TracebackType

from typing_extensions import Self

from ..common.loops import require_loop
from ..protocol.revisions import STATELESS
from ..protocol.types import Json
from .asking.questions import Questions, Roots
from .link.agreed import Negotiated
from .link.errors import FOR_OTHERS, NOT_OPEN
from .link.link import Link


class Connected:
    """What is opened and closed, and has agreed with a server upon a revision.

    Args:
        link: The link to the server.
        questions: What answers the server's questions.
    """

    _entered = 0
    """How many blocks it is open for: it may be entered again while it is open, and the last that leaves closes it."""

    def __init__(self, link: Link, questions: Questions) -> None:
        self._link = link
        self._questions = questions
        questions.server_info = self._known_info

    # Its life

    async def __aenter__(self) -> Self:
        """Connect, and agree with the server upon a revision, unless another block has done so.

        Raises:
            RuntimeError: No event loop of asyncio runs here, or the client is open in another one.
            Exception: What keeps it from the server.
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
        await self._link.begin()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it, unless it is open for another block."""
        await self._leave()

    async def _leave(self) -> None:
        self._check_here()
        self._entered -= 1
        if self._entered <= 0:
            await self.close()

    async def close(self) -> None:
        """End all that waits, and leave the server, for whichever blocks it is open; called again it does nothing."""
        self._check_here()
        self._entered = 0
        await self._link.close()

    def _check_here(self) -> None:
        self._link.home.check(is_leaving=True)

    # What was agreed upon

    @property
    def protocol_version(self) -> str:
        """The negotiated protocol version.

        Raises:
            ConnectionError: It has not been opened yet; so for all that was agreed upon.
        """
        return self._agreed.revision

    @property
    def protocol_version_reason(self) -> str:
        """Why this version was chosen, in words."""
        return self._agreed.reason

    @property
    def server_info(self) -> Json:
        """What the server says it is."""
        return self._agreed.info

    @property
    def server_capabilities(self) -> Json:
        """What the server declares."""
        return self._agreed.capabilities

    @property
    def instructions(self) -> str | None:
        """How the server says that a model should use it, or None."""
        return self._agreed.instructions

    def _known_info(self) -> Json:
        return {} if self._link.negotiated is None else self._link.negotiated.info

    @property
    def _agreed(self) -> Negotiated:
        if self._link.negotiated is None:
            raise ConnectionError(NOT_OPEN)
        return self._link.negotiated

    @property
    def roots(self) -> Roots | None:
        """The folders that the server is to stay within, as given; to be set anew, also while it is open.

        Servers of the handshake era are told that they have changed.

        Raises:
            ValueError: On setting: a server of the handshake era has been told that there are none.
        """
        return self._questions.roots

    @roots.setter
    def roots(self, roots: Roots | None) -> None:
        link = self._link
        if link.is_open and link.wire.revision not in STATELESS and "roots" not in link.wire.capabilities:
            raise ValueError(
                "the session has begun without roots: give the client roots=[] where they come later"
            )
        self._questions.roots = roots
        if link.is_open and link.wire.revision in STATELESS:
            link.speak(link.wire.revision)
        elif link.is_open:
            link.notify("notifications/roots/list_changed")
