"""Tool definitions that a client needs for calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..._utils.exceptions import ArgumentsError, ProtocolError, RegistrationError, TransportError
from ...protocol.jsonrpc import Json, is_object
from ...protocol.objects import MirroredParameter
from ..client_messages import NO_HEADERS
from ..link.errors import InvalidResultError
from ..link.results import CallResult

if TYPE_CHECKING:
    from .output import Output

logger = logging.getLogger(__name__)

_MOST_UNKNOWN: Final = 1_000
"""The most names remembered as unknown to the server."""


class ListTools(Protocol):
    """Lists all tools."""

    def __call__(self, *, use_cache: bool = True) -> Awaitable[list[Any]]:
        """Return all tools; a cached list only with `use_cache`."""
        ...


class ListedTool:
    """The definition of one tool.

    Args:
        definition: The tool, as the server lists it.
        mirrored: The arguments that are repeated in headers.

    Attributes:
        mirrored: The arguments that are repeated in headers.
    """

    def __init__(self, definition: Json, mirrored: tuple[MirroredParameter, ...] = ()) -> None:
        self.mirrored = mirrored
        self._definition = definition

    @property
    def is_harmless(self) -> bool:
        """Whether the tool's annotations allow sending a call twice."""
        hints = self._definition.get("annotations")
        return is_object(hints) and True in (hints.get("readOnlyHint"), hints.get("idempotentHint"))

    @cached_property
    def output(self) -> Output | ValueError | None:
        """The validator of its results; the error if there can be none; None without `outputSchema`."""
        if self._definition.get("outputSchema") is None:
            return None
        from .output import output_of  # which brings all of the schemas

        return output_of(self._definition)


_UNKNOWN: Final = ListedTool({})


class ListedTools:
    """The tools that a server listed last. An unknown tool is looked up once.

    Args:
        list_tools: Lists the tools, and passes them to `learn`.
    """

    def __init__(self, list_tools: ListTools) -> None:
        self._list_tools = list_tools
        self._tools: dict[str, ListedTool] = {}
        self._unlisted: set[str] = set()
        self._told: set[str] = set()
        self._listing = asyncio.Lock()

    def learn(self, tools: list[Any], *, by_http: bool) -> list[Any]:
        """Store the listed tools, and return them without invalid ones.

        Args:
            tools: All tools.
            by_http: Whether arguments are repeated in headers. Tools with invalid rules for that are then left out.
        """
        if not by_http:
            self._tools = {str(tool.get("name")): ListedTool(tool) for tool in tools}
            return tools
        from .mirrored import mirrored_by

        valid: list[Json] = []
        listed: dict[str, ListedTool] = {}
        for tool in tools:
            name, mirrored = str(tool.get("name")), mirrored_by(tool)
            if isinstance(mirrored, RegistrationError):
                self._warn(name, f"the client leaves it out of the list: {mirrored}")
            else:
                valid.append(tool)
                listed[name] = ListedTool(tool, mirrored)
        self._tools = listed
        return valid

    def hear(self, method: str, params: Json | None) -> None:
        """Forget all tools when the server notifies that they have changed."""
        if method == "notifications/tools/list_changed":
            self.forget()

    def forget(self) -> None:
        """Forget all tools, as another server may respond now."""
        self._tools = {}
        self._unlisted.clear()
        self._listing = asyncio.Lock()

    def is_harmless(self, name: str) -> bool:
        """Return whether the listed annotations of a tool allow sending a call twice."""
        return name in self._tools and self._tools[name].is_harmless

    async def headers(
        self, name: str, arguments: Mapping[str, Any], *, fresh: bool = False
    ) -> Mapping[str, str]:
        """Return the headers that repeat the arguments of a call.

        Args:
            name: The name of the tool.
            arguments: The arguments.
            fresh: Whether to list the tools again.

        Raises:
            ValueError: An integer is too large for a header.
            ConnectionError: The tools cannot be listed.
            TimeoutError: Listing the tools takes too long.
        """
        try:
            repeated = (await self._find(name, fresh=fresh)).mirrored
        except TransportError as error:
            error.may_have_begun = False  # the call, that is
            raise
        if not repeated:
            return NO_HEADERS
        from .mirrored import headers_of

        return headers_of(repeated, arguments)

    def may_promise(self, name: str, result: CallResult) -> bool:
        """Return whether a tool may have an `outputSchema` for a result."""
        return result.type == "complete" and (name in self._tools or "structuredContent" in result.raw)

    async def check(self, name: str, result: CallResult) -> None:
        """Validate a result against the `outputSchema` of its tool.

        Raises:
            InvalidResultError: The result does not fit; the message names the place.
        """
        tool = self._tools.get(name)
        if tool is None:
            tool = await self._found_later(name)
        if not self._problems(name, tool, result):
            return
        # It may have changed since, and nobody has heard of it.
        found = self._problems(name, await self._found_later(name, fresh=True), result)
        if found:
            lines = f"the result of {name} does not match its outputSchema:\n{found}"
            raise InvalidResultError(lines, result)

    def _problems(self, name: str, tool: ListedTool, result: CallResult) -> str:
        output = tool.output
        if isinstance(output, ValueError):
            self._warn(name, f"its results are not checked, as its outputSchema is invalid: {output}")
            return ""
        problems = None if output is None else output.problems(result.raw)
        return str(ArgumentsError(problems)) if problems else ""

    async def _found_later(self, name: str, *, fresh: bool = False) -> ListedTool:
        """Look up a tool after its call. Errors are logged, so that the result is not lost."""
        try:
            return await self._find(name, fresh=fresh)
        except (ProtocolError, OSError) as error:
            logger.debug("tools/list failed, so a result of %s was not checked: %s", name, error)
            return _UNKNOWN

    async def _find(self, name: str, *, fresh: bool = False) -> ListedTool:
        if fresh or not self._is_known(name):
            async with self._listing:
                if fresh or not self._is_known(name):  # by whoever came first
                    await self._list(name, fresh=fresh)
        return self._tools.get(name, _UNKNOWN)

    def _is_known(self, name: str) -> bool:
        return name in self._tools or name in self._unlisted

    async def _list(self, name: str, *, fresh: bool) -> None:
        try:
            await self._list_tools(use_cache=not fresh)
        except ProtocolError as error:
            logger.debug("tools/list failed: %s", error)
        if name not in self._tools and len(self._unlisted) < _MOST_UNKNOWN:
            self._unlisted.add(name)

    def _warn(self, name: str, why: str) -> None:
        """Log once that a tool is invalid."""
        if name not in self._told and len(self._told) < _MOST_UNKNOWN:
            self._told.add(name)
            logger.warning("the server's tool %s does not follow the specification: %s", name[:100], why)
