"""Extensions of the protocol: what a server offers beyond its core, to clients that know of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from .content.data import json_value
from .content.values import ExtensionResult
from .errors import MissingCapabilityError, RegistrationError
from .middleware import Middlewares
from .protocol.capabilities import tree
from .protocol.jsonrpc import is_object
from .protocol.revisions import ALL, RESULT_TYPES, knows
from .registration.declarations import capabilities, json_object
from .registration.registry import Registry

if TYPE_CHECKING:
    from .context import Context

_LABEL: Final = "[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_IDENTIFIER: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
"""A key of `_meta` with a prefix (basic/index, "_meta"); one with nothing after the slash names nothing."""

_REVISIONS: Final = tuple(each for each in ALL if knows(each, "ServerCapabilities", "extensions"))
"""The revisions in which extensions are negotiated."""


class Extension(Registry):
    """An extension of the protocol (basic/versioning, "Extension Negotiation", since 2026-07-28).

    `server.extension(identifier)` makes one and attaches it; a ready-made one is attached by
    `server.include(extension)`. The server then names it among its capabilities, offers what is registered
    here as if it had been registered there, and passes its requests through this middleware, inside its own.
    What includes such a server has all of that, too.

    Args:
        identifier: A name under a domain of one's own, the other way round: `com.example/receipts`.
        settings: What clients are told about it: a JSON object, whose form is the extension's business.

    Attributes:
        identifier: Its identifier.
        settings: Its settings.
        capability: What `requires=` and `ctx.client.supports(...)` know it by: `extensions.<identifier>`.
        middleware: Wraps the requests of the servers that it is attached to: `@extension.middleware`, or
            `@extension.middleware("tools/call")`.

    Raises:
        RegistrationError: The identifier breaks the rule, or JSON cannot carry the settings.
    """

    def __init__(self, identifier: str, settings: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        _check_identifier(identifier)
        self.identifier = identifier
        self.settings = json_object(f"extension {identifier!r}: settings", settings)
        self.capability = f"extensions.{identifier}"
        self.middleware = Middlewares(self)
        self.extensions[identifier] = self

    def _of_method(self, name: str, options: dict[str, Any]) -> dict[str, Any]:
        also = capabilities(f"method {name!r}", options.get("requires"))
        return {"revisions": _REVISIONS, **options, "requires": (self.capability, *also)}

    def is_supported(self, ctx: Context[Any]) -> bool:
        """Say whether the client has declared the extension, in a revision that knows extensions.

        A client of an older revision may have declared it all the same: `ctx.client.supports(capability)`.
        """
        return ctx.revision in _REVISIONS and ctx.client.supports(self.capability)

    def client_settings(self, ctx: Context[Any]) -> dict[str, Any] | None:
        """Return what the client has declared of the extension; None where it does not support it."""
        if not self.is_supported(ctx):
            return None
        settings: dict[str, Any] = ctx.client.capabilities["extensions"][self.identifier]
        return settings

    def result(self, ctx: Context[Any], result_type: str, members: Any = None) -> ExtensionResult:
        """Return a result of a type of the extension's own (basic/index, "ResultType").

        A tool or a middleware may return it in the place of a tool's result, a method in the place of
        its own. It reaches the client as it is: no schema and no form of the core protocol is applied.

        Args:
            ctx: The request that it answers.
            result_type: The value of `resultType`.
            members: The other members: a dict, model or dataclass, or None for none.

        Raises:
            MissingCapabilityError: The client has not declared the extension, so it would have to take
                the result for an invalid one; let it pass, or ask `is_supported` before.
            TypeError: The members are no JSON object.
            ValueError: The type is empty or the core protocol's.
            OutputError: A member has no form in JSON.
        """
        named: Any = result_type
        if not isinstance(named, str) or not named or named in RESULT_TYPES:
            raise ValueError(
                f"a result type is a name of the extension's own, such as 'receipt', not {named!r}"
            )
        if not self.is_supported(ctx):
            raise MissingCapabilityError([self.capability], tree([self.capability]))
        data: Any = {} if members is None else json_value(members, "members")
        if not is_object(data):
            raise TypeError(f"the members of a result are an object, not {type(members).__name__}")
        return ExtensionResult({**data, "resultType": result_type})

    def __repr__(self) -> str:
        """Show the identifier."""
        return f"<Extension {self.identifier!r}>"


def _check_identifier(identifier: Any) -> None:
    if not isinstance(identifier, str) or not _IDENTIFIER.fullmatch(identifier):
        raise RegistrationError(
            f"invalid extension identifier {identifier!r}: write a domain the other way round, a slash and a name, "
            "such as 'com.example/receipts'"
        )
