"""Dispatches requests from servers to the client's handlers, the same in all revisions.

client/elicitation, client/sampling, client/roots.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ..._utils.exceptions import METHOD_NOT_FOUND, MalformedError, ProtocolError
from ..._utils.option_checks import check_function
from ...protocol.jsonrpc import Json
from ...protocol.revisions import CLIENT_METHODS, STATELESS, knows
from ...requests.elicitation_and_sampling import ElicitationResult, Root
from .visits import UrlRequest

if TYPE_CHECKING:
    from .forms import FormRequest
    from .sampling import SamplingFunction, SamplingHandler

# Forms and samples bring schemas and content, which clients without such questions do without.
ElicitationHandler = Callable[["FormRequest"], object]
"""Fills in a form; see `FormRequest.result` for its return value. It may be `async`."""

UrlElicitationHandler = Callable[
    [UrlRequest], "bool | ElicitationResult[Any] | Awaitable[bool | ElicitationResult[Any] | None] | None"
]
"""Shows the user a page; see `UrlRequest.result` for its return value. It may be `async`."""

RootsGiven = Sequence["str | PathLike[str] | Root"]
"""Folders and files by their paths or URIs."""

Roots = RootsGiven | Callable[[], "RootsGiven | Awaitable[RootsGiven]"]
"""The client's roots, or a function that returns them."""


class Questions:
    """Handles requests from the server.

    Args:
        elicit: Fills in forms.
        elicit_url: Shows pages to the user.
        sample: Generates messages with a model.
        roots: The folders that the server may use. They can be changed later.

    Attributes:
        server_info: Returns the server's `Implementation`, for handlers.
    """

    def __init__(
        self,
        *,
        elicit: ElicitationHandler | None = None,
        elicit_url: UrlElicitationHandler | None = None,
        sample: SamplingFunction | SamplingHandler | None = None,
        roots: Roots | None = None,
    ) -> None:
        check_function("elicitation_handler", elicit, "a FormRequest")
        check_function("url_elicitation_handler", elicit_url, "a UrlRequest")
        self._elicit = elicit
        self._elicit_url = elicit_url
        self._sampler = None if sample is None else _sampler(sample)
        self._roots: Roots | None = None
        self.roots = roots
        self.server_info: Callable[[], Any] = dict
        self._answers: Final[dict[str, Callable[[Json], Awaitable[Json]]]] = {
            "elicitation/create": self._elicited,
            "sampling/createMessage": self._sampled,
            "roots/list": self._listed,
        }

    @property
    def roots(self) -> Roots | None:
        """The folders that the server may use, as given. They can be changed at any time.

        Raises:
            TypeError: On setting: the value is neither a list nor a function.
        """
        return self._roots

    @roots.setter
    def roots(self, roots: Roots | None) -> None:
        if roots is not None and not callable(roots):
            _check_roots(roots)
        self._roots = roots

    def capabilities(self, revision: str) -> Json:
        """Return the capabilities that the client declares in a revision: those with a handler."""
        declared: Json = {}
        has_modes = knows(revision, "ElicitRequestParams", "mode")
        if revision in CLIENT_METHODS["elicitation/create"]:
            if has_modes and self._elicit_url is not None:
                declared["elicitation"] = {"url": {}}
            if self._elicit is not None:
                declared["elicitation"] = {
                    **declared.get("elicitation", {}),
                    **({"form": {}} if has_modes else {}),
                }
        if self._sampler is not None:
            declared["sampling"] = {}
            if knows(revision, "CreateMessageRequestParams", "tools"):
                can_do = {"tools": self._sampler.tools, "context": self._sampler.context}
                declared["sampling"] = {name: {} for name, can in can_do.items() if can}
        if self.roots is not None:
            declared["roots"] = {} if revision in STATELESS else {"listChanged": True}
        return declared

    async def answer(self, method: str, params: Json) -> Json:
        """Handle a request from the server.

        Args:
            method: The method of the request.
            params: Its params.

        Returns:
            The result, in the form of the specification.

        Raises:
            ProtocolError: The error to respond with: there is no handler, or the request is malformed.
            BaseException: The handler failed, or returned an invalid value (TypeError, ValueError).
        """
        find = self._answers.get(method)
        if find is None:
            raise _refusal(method)
        return await find(params)

    async def _elicited(self, params: Json) -> Json:
        mode = params.get("mode", "form")
        if self._elicit is None and self._elicit_url is None:
            raise _refusal("elicitation/create")
        if mode == "form" and self._elicit is not None:
            from .forms import FormRequest

            form = FormRequest(params, self.server_info())
            return form.result(await _returned(self._elicit(form)))
        if mode == "url" and self._elicit_url is not None:
            visit = UrlRequest(params, self.server_info())
            return visit.result(await _returned(self._elicit_url(visit)))
        raise MalformedError(f"mode: this client does not answer elicitation in the mode {mode!r:.60}")

    async def _sampled(self, params: Json) -> Json:
        if self._sampler is None:
            raise _refusal("sampling/createMessage")
        if not self._sampler.tools and not params.keys().isdisjoint({"tools", "toolChoice"}):
            raise MalformedError(
                "tools: this client does not declare sampling.tools. Send the request without tools "
                "and toolChoice"
            )
        from .sampling import SampleRequest

        request = SampleRequest(params, self.server_info())
        return request.result(await _returned(self._sampler.handler(request)))

    async def _listed(self, params: Json) -> Json:
        if self.roots is None:
            raise _refusal("roots/list")
        given = await _returned(self.roots() if callable(self.roots) else self.roots)
        return {"roots": [_root(each) for each in _check_roots(given)]}


def _sampler(given: SamplingFunction | SamplingHandler) -> SamplingHandler:
    from .sampling import SamplingHandler

    return given if isinstance(given, SamplingHandler) else SamplingHandler(given)


def _check_roots(given: object) -> Sequence[object]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise TypeError(f"roots= must be a list of paths and URIs, got {given!r}")
    return cast("Sequence[object]", given)


async def _returned(answer: object) -> object:
    return await answer if inspect.isawaitable(answer) else answer


def _refusal(method: str) -> ProtocolError:
    return ProtocolError(METHOD_NOT_FOUND, f"this client does not answer {method:.60}")


def _root(given: object) -> Json:
    if isinstance(given, Root):
        return {"uri": given.uri} if given.name is None else {"uri": given.uri, "name": given.name}
    if isinstance(given, str) and (given.startswith("file:") or "://" in given):
        return {"uri": given}
    if isinstance(given, (str, PathLike)):
        return {"uri": Path(cast("str | PathLike[str]", given)).expanduser().absolute().as_uri()}
    raise TypeError(f"roots= must contain only paths and URIs, got {given!r}")
