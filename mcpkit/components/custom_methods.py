"""Methods outside the core protocol: of an extension or of one server."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeGuard, cast

from typing_extensions import Unpack

from .._utils.exceptions import ArgumentsError, MalformedError, OutputError, RegistrationError
from ..content.blocks import ExtensionResult, described
from ..content.json_encoding import json_value
from ..protocol.jsonrpc import Json, is_object
from ..protocol.revisions import ALL, CLIENT_METHODS, METHODS, CacheHint
from ..requests.request_record import Call
from ..schema import Arguments, Output
from ..schema.function_signatures import empty
from .component import FunctionComponent, FunctionOptions


class CustomMethod(FunctionComponent):
    """A request method outside the core protocol, made from a function.

    The function's parameters are the members of the request's params; unknown members and `_meta` are ignored. Params
    that do not match are refused (-32602; over HTTP with status 400 in protocol versions without `initialize`). The
    function returns a JSON object: a dict, model, dataclass or TypedDict; None is an empty object. The server adds the
    members that the protocol version requires of every result.

    Args:
        function: Function that handles requests.
        name: Method name, such as `thing/do`: 1 to 128 visible ASCII characters.
        protocol_versions: Protocol versions that have the method; None for all.
        name_param: String parameter that clients repeat in the HTTP header `Mcp-Name`, for routing. A request with a
            different value is refused (-32020).
        cache: How long clients may reuse the result (utilities/caching); None sends no hint.
        options: See `FunctionOptions`.

    Attributes:
        revisions: Protocol versions that have the method.

    Raises:
        RegistrationError: The definition cannot be served. The message contains the remedy.
        TypeError: There is no such option.
    """

    kind = "method"

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        *,
        protocol_versions: Collection[str] | None = None,
        name_param: str | None = None,
        cache: CacheHint | None = None,
        **options: Unpack[FunctionOptions],
    ) -> None:
        check_method_name(name)
        super().__init__(function, name, **options)
        self.revisions = _revisions(name, protocol_versions)
        self.name_param = name_param
        self.cache = cache if cache is None or self.visible is None else cache.private
        self._output: Output | None = None

    def build(self) -> None:
        """Build the schema of the params and that of the result, which must be an object."""
        output = self._output_of_returns()
        if output is not None and output.schema.get("type", "object") != "object":
            raise RegistrationError(
                f"method {self.key!r}: its result must be a JSON object. Return a dict, a model or a dataclass, "
                f'or {{"value": ...}} for a single value'
            )
        self._output = output
        takes_all = self.signature.extra is not empty
        self._arguments = Arguments.of(self.signature, drops_unknown=not takes_all)
        if self.name_param is None or takes_all:
            return
        parameters: Json = self._arguments.schema["properties"]
        if self.name_param not in parameters:
            raise RegistrationError(
                f"method {self.key!r}: name_param must be one of its parameters "
                f"({', '.join(parameters) or 'it has none'}), got {self.name_param!r}"
            )
        schema: Json = parameters[self.name_param]
        if any(branch.get("type") not in {"string", "null"} for branch in schema.get("anyOf", [schema])):
            raise RegistrationError(
                f"method {self.key!r}: the header Mcp-Name repeats a string. Annotate {self.name_param!r} as `str`"
            )

    async def serve(self, call: Call) -> Json:
        """Validate the params of a request, run the function and return the result object.

        Args:
            call: The request.

        Raises:
            MalformedError: The params do not match the parameters.
            OutputError: The returned value does not match the annotation, or is not a JSON object.
            Exception: Raised by the function.
        """
        params = {name: value for name, value in call.params.items() if name != "_meta"}
        if self.name_param is not None and not isinstance(params.get(self.name_param), str | None):
            raise MalformedError(f"{self.name_param}: expected a string")  # the header cannot be compared
        try:
            kwargs = self.arguments.validate(params)
        except ArgumentsError as error:
            raise MalformedError(str(error)) from None
        return cast("Json", await self.run(kwargs, call, self.render))

    def render(self, value: Any) -> Json:
        """Convert a returned value to the result object.

        Args:
            value: Value that the function returned.

        Raises:
            OutputError: The value is not a JSON object.
        """
        if value is None and self._output is None:
            return {}
        if self._output is None or isinstance(value, ExtensionResult):
            data = json_value(value)
        else:
            data = self._output.dump(value)
        if not is_object(data):
            raise OutputError(
                f"result is {described(value)}. Return a JSON object: a dict, a model or a dataclass"
            )
        return data


def check_method_name(name: Any) -> None:
    """Check the name of a custom method, which must not be a method of the core protocol.

    Raises:
        RegistrationError: The name is invalid, reserved, or a method of the core protocol.
    """
    # The header `Mcp-Method` can contain these names without encoding.
    if not isinstance(name, str) or not re.fullmatch(r"[!-~]{1,128}", name):
        raise RegistrationError(
            f"the name of a method must be 1 to 128 visible ASCII characters, as in @server.method('thing/do'), "
            f"got {name!r}"
        )
    if name in METHODS or name in CLIENT_METHODS:
        raise RegistrationError(
            f"{name!r} is a method of the core protocol. Wrap it with @server.middleware({name!r}), or use another name"
        )
    if name.startswith(("notifications/", "rpc.")):
        what = "a notification, which has no result" if name.startswith("n") else "reserved by JSON-RPC"
        raise RegistrationError(f"{name!r} is {what}. Use another name")


def _revisions(name: str, revisions: Any) -> frozenset[str]:
    if revisions is None:
        return frozenset(ALL)
    if not _is_collection(revisions):
        raise RegistrationError(
            f"method {name!r}: protocol_versions must be a list of {', '.join(ALL)}, got {revisions!r}"
        )
    unknown = [each for each in revisions if each not in ALL]
    if unknown or not revisions:
        wrong = f"unknown {unknown[0]!r}" if unknown else "the list is empty"
        raise RegistrationError(
            f"method {name!r}: protocol_versions: {wrong}. The versions are {', '.join(ALL)}"
        )
    return frozenset(revisions)


def _is_collection(value: Any) -> TypeGuard[Collection[Any]]:
    return isinstance(value, Collection) and not isinstance(value, str | Mapping)
