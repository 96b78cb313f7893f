"""Registries, which collect components and include others, and extensions of the protocol."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from .._utils.errors import MissingCapabilityError, RegistrationError
from .._utils.listeners import Listeners
from ..components.catalog import Catalog, CatalogOwner
from ..components.checks import capabilities, check_is_function, json_object
from ..components.component import Component
from ..components.decorators import Build, Decorators
from ..components.options import Access, MethodOptions, access_of
from ..identity.change import Change, ListName
from ..middleware.base import Middlewares
from ..protocol.capabilities import tree
from ..protocol.jsonrpc import is_object
from ..protocol.revisions import ALL, RESULT_TYPES, knows
from ..protocol.types import Json
from ..requests.call import call_of

if TYPE_CHECKING:
    from ..components.included import Inclusion
    from ..content.values import ExtensionResult
    from ..execution.lifespan import Lifespans
    from ..providers.base import Provided, Provider
    from ..requests.call import CallContext
    from .topic import Accept, SubscriptionTopic

_LABEL = "[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_IDENTIFIER = rf"{_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
"""A key of `_meta` with a prefix (basic/index, "_meta"); one with nothing after the slash names nothing."""

_REVISIONS = tuple(each for each in ALL if knows(each, "ServerCapabilities", "extensions"))
"""The revisions in which extensions are negotiated."""


class CompositeCatalog(Catalog):
    """Components of a registry or server, and those that it includes.

    Attributes:
        included: The catalogs that are included, with their later changes.
        attached: The extensions in the order of registration, duplicates of one identifier included.
        extensions: The extensions by identifier, those of included catalogs too.
        extension_listeners: Called when an extension is added or removed, or its middleware changes.
        is_protected: Whether access tokens are verified over HTTP for these components.
        providers: The providers, those of included catalogs too.
        provider_listeners: Called with each list that a provider changes.
    """

    def __init__(
        self, lifespans: Lifespans | None = None, check: Callable[[Component], None] | None = None
    ) -> None:
        super().__init__(lifespans, check)
        self.included: list[CompositeCatalog] = []
        self.is_protected = False
        self.extension_listeners: Listeners[[]] = Listeners()
        self.attached: tuple[Extension, ...] = ()
        self.extensions: Mapping[str, Extension] = {}
        self.providers: tuple[Provided, ...] = ()
        self.provider_listeners: Listeners[[ListName]] = Listeners()
        self._own_extension: Extension | None = None
        self._own_providers: list[Provided] = []
        self._followed: list[tuple[CompositeCatalog, str]] = []

    @property
    def includes_protected(self) -> bool:
        """True if an included catalog, at any depth, belongs to a server that verifies access tokens."""
        return any(each.is_protected or each.includes_protected for each in self.included)

    def add_all(self, components: Iterable[Component]) -> Callable[[], None]:
        """Add components together, and return a function that removes them.

        Raises:
            RegistrationError: A component cannot be served, or its name is taken. Then none is added.
        """
        components = list(components)
        for component in components:  # before the lock, as it may take long, and lists wait for the lock
            with suppress(RegistrationError):  # which `add` raises
                component.resolve()
        with self.lock, ExitStack() as undo:
            for component in components:
                part = self.part_of(component)
                undo.callback(part.discard, part.add(component, replace=self.replaces_duplicates))
            return _at_once(undo.pop_all(), self.lock)

    def follow(self, source: CompositeCatalog, prefix: str) -> Callable[[], None]:
        """Include another catalog and its later changes, and return a function that removes it.

        Raises:
            RegistrationError: A name is taken, an extension exists with other settings, or a catalog would include
                itself.
        """
        from ..components.prefix import prefixed, prefixed_uri
        from ..providers.base import lists_of

        if source is self or _includes(source, self):
            raise RegistrationError(
                "a server or router cannot include itself, directly or through another one"
            )

        def forward(change: Change) -> None:
            if change.uri is not None:
                self.listeners.tell(Change(change.kind, prefixed_uri(change.uri, prefix), change.audience))
            elif change.key is not None:
                self.listeners.tell(change)

        with (
            source.lock,
            self.lock,
            ExitStack() as undo,
        ):  # so that no change falls between copying and listening
            self.included.append(source)
            undo.callback(self.attach)
            undo.callback(self.included.remove, source)
            undo.callback(source.extension_listeners.add(self.attach))
            self.attach()
            for mine, theirs in zip(self.parts, source.parts, strict=True):
                undo.callback(mine.mirror(theirs, partial(prefixed, prefix=prefix)))
            undo.callback(source.listeners.add(forward))
            undo.callback(lambda: self._gather(*lists_of(source.providers)))
            undo.callback(self._followed.remove, (source, prefix))
            undo.callback(source.provider_listeners.add(self._gather))
            self._followed.append((source, prefix))
            self._gather(*lists_of(source.providers))
            return _at_once(undo.pop_all(), source.lock, self.lock)

    def provide(self, provider: Provider, prefix: str) -> Callable[[], None]:
        """Include a provider, and return a function that removes it.

        Raises:
            RegistrationError: The provider is included already, or its kinds are missing or unknown.
        """
        from ..providers.base import Provided, check_kinds, lists_of

        check_kinds(provider)
        with self.lock, ExitStack() as undo:
            if any(each.shows(provider, prefix) for each in self._own_providers):
                raise RegistrationError(
                    f"{provider!r} is already included with this prefix. Remove one include(...), or use another prefix"
                )
            provided = Provided(provider, self, prefix)
            undo.callback(self._gather, *lists_of([provided]))
            undo.callback(self._own_providers.remove, provided)
            undo.callback(provider.listeners.add(self._gather))
            self._own_providers.append(provided)
            self._gather(*lists_of([provided]))
            return _at_once(undo.pop_all(), self.lock)

    def _gather(self, *lists: ListName) -> None:
        """Collect the providers of the included catalogs again, and notify listeners of the lists that have changed."""
        from ..providers.base import Provided

        with self.lock:
            theirs = [
                Provided(each, self, prefix) for source, prefix in self._followed for each in source.providers
            ]
            self.providers = tuple(
                sorted([*self._own_providers, *theirs], key=lambda provided: provided.position)
            )
            for each in lists:
                self._changed(each)
                self.provider_listeners.tell(each)

    def declare(self, extension: Extension) -> None:
        """Make this the catalog of an extension."""
        self._own_extension = extension
        self.attached = (extension,)
        self.extensions = {extension.identifier: extension}

    def attach(self) -> None:
        """Collect the extensions of the included catalogs again.

        Raises:
            RegistrationError: Two extensions have one identifier and different settings, or two extensions have topics
                of one member. Then nothing changes.
        """
        with self.lock:
            found = dict.fromkeys(each for source in self.included for each in source.attached)
            attached = (
                dict.fromkeys(each for each in self.attached if each is self._own_extension or each in found)
                | found
            )
            extensions: dict[str, Extension] = {}
            for each in attached:
                present = extensions.setdefault(each.identifier, each)
                if present.settings != each.settings:
                    raise RegistrationError(
                        f"two extensions are named {each.identifier!r}, with the settings {present.settings!r} "
                        f"and {each.settings!r}. Create one, and include it where it is needed"
                    )
            members: dict[str, str] = {}
            for each in attached:
                for topic in each.topics:
                    owner = members.setdefault(topic.member, each.identifier)
                    if owner != each.identifier:
                        raise RegistrationError(
                            f"the extensions {owner!r} and {each.identifier!r} both have a topic {topic.member!r}. "
                            "Rename one of them"
                        )
            self.attached, self.extensions = tuple(attached), extensions
            self.extension_listeners.tell()


class Registry(Decorators, CatalogOwner):
    """A collection of tools, resources, prompts and methods that servers include.

        weather = Registry()

        @weather.tool
        def get_forecast(city: str) -> str:
            ...

        server.include(weather, prefix="weather")

    All methods may be called at any time and from any thread. Every client that listens is notified of each change.
    """

    def __init__(
        self, lifespans: Lifespans | None = None, check: Callable[[Component], None] | None = None
    ) -> None:
        self._catalog = CompositeCatalog(lifespans, check)

    @property
    def catalog(self) -> CompositeCatalog:
        """The components: `catalog.tools`, `catalog.resources`, `catalog.resource_templates`, `catalog.prompts`."""
        return self._catalog

    def extension(self, identifier: str, settings: Mapping[str, Any] | None = None) -> Extension:
        """Create and attach a protocol extension: `server.extension("com.example/receipts")`.

        See basic/versioning, "Extension Negotiation". `include(extension)` attaches an extension that exists.

        Args:
            identifier: Identifier with the prefix of a domain that you own, reversed: `com.example/receipts`.
            settings: Settings that clients get with the capability: a JSON object in a form that the extension defines.

        Returns:
            The extension, on which methods, tools, resources and middleware are registered.

        Raises:
            RegistrationError: The identifier is invalid or taken, or the settings cannot be written as JSON.
        """
        if isinstance(identifier, Extension):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise RegistrationError(
                f"extension(...) takes an identifier, got the extension {identifier!r}. "
                "Add that to this server with server.include(...)"
            )
        extension = Extension(identifier, settings)
        if identifier in self.catalog.extensions:
            raise RegistrationError(
                f"the extension {identifier!r} already exists. Use extensions[{identifier!r}]"
            )
        self.include(extension)
        return extension

    def _take(self, function: Any, build: Build) -> Any:
        is_static = isinstance(function, staticmethod)
        target: Any = function.__func__ if is_static else function
        check_is_function(target)
        self.catalog.add(build(target))
        return function

    def include(self, source: Any, *, prefix: str = "") -> Inclusion:
        """Include components from elsewhere: `server.include(weather, prefix="weather")`.

        Args:
            source: A module, an object or a function decorated with `@tool`, `@resource` or `@prompt`; a ready-made
                component such as a `Tool` or `BaseTool`; a `Registry`, `Extension` or `Server`, with its later changes;
                a `Provider`; or the return value of `resource_dir(...)`.
            prefix: Prefix of names, with an underscore (`weather` makes `weather_get_forecast`), and of URIs, as the
                first part after the scheme (`data://weather/stations`). Methods keep their names.

        Returns:
            An object that undoes the inclusion by `remove()`, or at the end of its `with` block.

        Raises:
            RegistrationError: The source has no components, a name is taken, an extension exists with other settings,
                or the kinds of a provider are missing or unknown. Then nothing is included.
        """
        from ..components.included import Inclusion
        from ..components.marking import marked
        from ..components.prefix import prefixed
        from ..providers.base import Provider

        if isinstance(source, Registry):
            return Inclusion(source, self._follow(source.catalog, prefix))
        if isinstance(source, Provider):
            return Inclusion(source, self.catalog.provide(source, prefix))
        is_component = isinstance(source, Component)
        found = [source] if is_component else [mark.build(mark.function) for mark in marked(source)]
        if not found:
            raise RegistrationError(
                f"{source!r} contains nothing to include. Decorate functions with @tool, @resource or @prompt"
            )
        if prefix:
            found = [component.renamed(prefixed(component, prefix)) for component in found]
        return Inclusion(source, self.catalog.add_all(found))

    def _follow(self, source: CompositeCatalog, prefix: str) -> Callable[[], None]:
        return self.catalog.follow(source, prefix)


class Extension(Registry):
    """A protocol extension (basic/versioning, "Extension Negotiation", since 2026-07-28).

        receipts = server.extension("com.example/receipts")

        @receipts.method("receipts/get")
        async def get_receipt(id: str) -> dict[str, str]:
            ...

    `server.extension(identifier)` creates and attaches one; `server.include(extension)` attaches one that exists. The
    server declares it among its capabilities, and serves its components like its own. Requests pass through the
    middleware of the server first, then through that of the extension. Servers that include such a server get the
    extension too.

    Args:
        identifier: Identifier with the prefix of a domain that you own, reversed: `com.example/receipts`.
        settings: Settings that clients get with the capability: a JSON object in a form that the extension defines.

    Attributes:
        identifier: The identifier.
        settings: The settings.
        capability: Name of the capability for `requires_capabilities=` and `ctx.client.supports(...)`:
            `extensions.<identifier>`.
        middleware: Functions around the requests of the servers that have the extension: `@extension.middleware`, or
            `@extension.middleware("tools/call")`.
        topics: The topics that clients can subscribe to, see `topic`.

    Raises:
        RegistrationError: The identifier is invalid, or the settings cannot be written as JSON.
    """

    def __init__(self, identifier: str, settings: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.topics: tuple[SubscriptionTopic, ...] = ()
        given: Any = identifier
        if not isinstance(given, str) or not re.fullmatch(_IDENTIFIER, given):
            raise RegistrationError(
                f"invalid extension identifier {given!r}. Write a reversed domain, a slash and a name, such as "
                "'com.example/receipts'"
            )
        self.identifier = identifier
        self.settings = json_object(f"extension {identifier!r}: settings", settings)
        self.capability = f"extensions.{identifier}"
        self.middleware = Middlewares(self.catalog.methods, self.catalog.extension_listeners.tell)
        self.catalog.declare(self)

    def topic(self, member: str, notification: str, *, accept: Accept | None = None) -> SubscriptionTopic:
        """Add a topic: notifications that clients subscribe to by key, such as those of jobs by job id.

        See basic/patterns/subscriptions. A client that has declared the extension sends the keys as an array in
        `notifications.<member>` of `subscriptions/listen`. It then gets a notification for each `publish` under one of
        them:

            jobs = extension.topic("jobIds", "notifications/jobs")
            jobs.publish("42", {"jobId": "42", "status": "done"})

        Args:
            member: Member of the filter, such as `jobIds`.
            notification: Method of the notification, such as `notifications/jobs`.
            accept: Function that gets the requested keys and the Context of the request, and returns the keys to
                accept. The client gets the accepted keys. It may raise a ProtocolError. It runs in the event loop, so
                it must be quick and not `async`. None accepts all keys.

        Returns:
            The topic: `topic.publish(key, params)`.

        Raises:
            RegistrationError: The member is taken, the member or the notification is invalid or one of the core
                protocol, or `accept` is not a function or is `async`.
        """
        from .topic import SubscriptionTopic  # which few servers need

        topic = SubscriptionTopic(member, notification, accept, self.catalog.listeners.tell)
        with self.catalog.lock:
            before = self.topics
            if any(each.member == member for each in before):
                raise RegistrationError(
                    f"{self!r} already has a topic {member!r}. Use that one, or choose another member"
                )
            self.topics = (*before, topic)
            try:
                self.catalog.attach()
            except RegistrationError:
                self.topics = before
                self.catalog.attach()
                raise
        return topic

    def _of_method(self, name: str, options: Json) -> Json:
        access = access_of(f"method {name!r}", cast("MethodOptions", options)) or Access()
        also = capabilities(f"method {name!r}", access.requires_capabilities)
        access = replace(access, requires_capabilities=(self.capability, *also))
        others = {key: value for key, value in options.items() if key not in {"scopes", "access"}}
        return {"protocol_versions": _REVISIONS, **others, "access": access}

    def is_supported(self, ctx: CallContext) -> bool:
        """Return True if the client has declared the extension, in a protocol version with extensions.

        A client of an older version may have declared it all the same: `ctx.client.supports(extension.capability)`.

        Args:
            ctx: The request.
        """
        return ctx.protocol_version in _REVISIONS and ctx.client.supports(self.capability)

    def client_settings(self, ctx: CallContext) -> dict[str, Any] | None:
        """Return the settings with which the client has declared the extension; None if it does not support it.

        Args:
            ctx: The request.
        """
        if not self.is_supported(ctx):
            return None
        settings: Json = ctx.client.capabilities["extensions"][self.identifier]
        return settings

    async def notify(self, ctx: CallContext, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification of the extension as part of a request. Only send it to a client with `is_supported(ctx)`.

        Args:
            ctx: The request.
            method: Method of the notification, such as `notifications/thing/changed`. It must not be one of the core
                protocol.
            params: Params of the notification, a JSON object.

        Raises:
            RuntimeError: The call has ended.
            ValueError: The method is not a notification, or is one of the core protocol, or the params are not JSON.
        """
        from ..requests.reporting import send_notification

        await send_notification(call_of(ctx), method, params)

    def result(self, ctx: CallContext, result_type: str, members: Any = None) -> ExtensionResult:
        """Return a result with a `resultType` of the extension (basic/index, "ResultType").

        A tool or a middleware may return it instead of a tool's result, and a method instead of its own. The client
        gets it unchanged: no output schema and no rule of the core protocol applies.

        Args:
            ctx: The request.
            result_type: Value of `resultType`.
            members: The other members: a dict, model or dataclass; None for none.

        Raises:
            MissingCapabilityError: The client has not declared the extension. Do not catch it, or check `is_supported`
                before.
            TypeError: The members are not a JSON object.
            ValueError: The type is empty or one of the core protocol.
            OutputError: A member cannot be written as JSON.
        """
        named: Any = result_type
        if not isinstance(named, str) or not named or named in RESULT_TYPES:
            raise ValueError(
                f"a result type must be a name that the protocol does not define, such as 'receipt', got {named!r}"
            )
        if not self.is_supported(ctx):
            raise MissingCapabilityError([self.capability], tree([self.capability]))
        from ..content.data import json_value
        from ..content.lazy import staying
        from ..content.values import ExtensionResult

        with staying():  # the author's function has it now
            data: Any = {} if members is None else json_value(members, "members")
        if not is_object(data):
            raise TypeError(f"the members of a result must be a dict, got {type(members).__name__}")
        return ExtensionResult({**data, "resultType": result_type})

    def __repr__(self) -> str:
        """Return the identifier."""
        return f"<Extension {self.identifier!r}>"


def _at_once(undo: ExitStack, *locks: AbstractContextManager[Any]) -> Callable[[], None]:
    """Return a function that closes the stack under the locks."""

    def take_back() -> None:
        with ExitStack() as held:
            for lock in locks:
                held.enter_context(lock)
            undo.close()

    return take_back


def _includes(outer: CompositeCatalog, inner: CompositeCatalog) -> bool:
    return any(each is inner or _includes(each, inner) for each in outer.included)
