"""Registries, which collect components and include others, and extensions of the protocol."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ..calls.call import call_of
from ..common.errors import MissingCapabilityError, RegistrationError
from ..common.listeners import Listeners
from ..components.catalog import Catalog, CatalogOwner
from ..components.checks import capabilities, check_is_function, json_object
from ..components.component import Component
from ..components.decorators import Build, Decorators
from ..components.options import Access, MethodOptions, access_of
from ..middleware.base import Middlewares
from ..protocol.capabilities import tree
from ..protocol.jsonrpc import is_object
from ..protocol.revisions import ALL, RESULT_TYPES, knows
from ..protocol.types import Json
from ..state.change import Change, ListName

if TYPE_CHECKING:
    from ..calls.call import CallContext
    from ..calls.lifespan import Lifespans
    from ..components.included import Inclusion
    from ..content.values import ExtensionResult
    from .provider import Provided, Provider
    from .topic import Accept, SubscriptionTopic

_LABEL = "[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_IDENTIFIER = rf"{_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
"""A key of `_meta` with a prefix (basic/index, "_meta"); one with nothing after the slash names nothing."""

_REVISIONS = tuple(each for each in ALL if knows(each, "ServerCapabilities", "extensions"))
"""The revisions in which extensions are negotiated."""


class CompositeCatalog(Catalog):
    """Components of a registry or server, and what it includes.

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
        """Whether an included catalog, at any depth, belongs to a server that verifies access tokens."""
        return any(each.is_protected or each.includes_protected for each in self.included)

    def add_all(self, components: Iterable[Component]) -> Callable[[], None]:
        """Add components together, and return the function that takes them back.

        Raises:
            RegistrationError: One of them cannot be served, or its name is taken. Then none is added.
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
        """Include another catalog, with its later changes, and return the function that takes it back.

        Raises:
            RegistrationError: A name is taken, an extension is there with other settings, or a catalog would
                include itself.
        """
        from ..components.prefix import prefixed, prefixed_uri
        from .provider import lists_of

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
        """Include what a provider offers, and return the function that takes it back.

        Raises:
            RegistrationError: The provider is included already, or does not name its kinds.
        """
        from .provider import Provided, check_kinds, lists_of

        check_kinds(provider)
        with self.lock, ExitStack() as undo:
            if any(each.shows(provider, prefix) for each in self._own_providers):
                raise RegistrationError(f"{provider!r} is already included")
            provided = Provided(provider, self, prefix)
            undo.callback(self._gather, *lists_of([provided]))
            undo.callback(self._own_providers.remove, provided)
            undo.callback(provider.listeners.add(self._gather))
            self._own_providers.append(provided)
            self._gather(*lists_of([provided]))
            return _at_once(undo.pop_all(), self.lock)

    def _gather(self, *lists: ListName) -> None:
        """Collect the providers of the included catalogs anew, and announce the lists that have changed."""
        from .provider import Provided

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
        """Collect the extensions of the included catalogs anew.

        Raises:
            RegistrationError: Two of one identifier have other settings, or two others a topic of one member. Then
                nothing changes.
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
                            f"the extensions {owner!r} and {each.identifier!r} both have a topic {topic.member!r}"
                        )
            self.attached, self.extensions = tuple(attached), extensions
            self.extension_listeners.tell()


class Registry(Decorators, CatalogOwner):
    """Tools, resources, prompts and methods that servers include: `server.include(registry)`.

    Everything may be called at any time and from any thread. Each change is announced to every client that listens.
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
        """Declare an extension of the protocol (basic/versioning, "Extension Negotiation").

        One that is there already is attached by `include(extension)`.

        Args:
            identifier: A name under a domain of one's own, the other way round: `com.example/receipts`.
            settings: What clients are told about it: a JSON object, whose form is the extension's business.

        Returns:
            The extension, where its methods, tools, resources and middleware are registered.

        Raises:
            RegistrationError: The identifier breaks the rule or is taken, or JSON cannot carry the settings.
        """
        if isinstance(identifier, Extension):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise RegistrationError(
                f"the extension {identifier!r} already exists. Attach it with include(...)"
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
        """Include components from elsewhere.

        Args:
            source: A module, an object or a function with marks (`@tool`, `@resource`, `@prompt`); a ready-made
                component such as a `Tool` or `BaseTool`; a `Registry`, `Extension` or `Server`, whose later changes
                are followed; a `Provider`; or what `resource_dir(...)` returned.
            prefix: Put before names with an underscore (`weather` makes `weather_get_forecast`), and into URIs as the
                first part after the scheme (`data://weather/stations`). Methods keep their names.

        Returns:
            An object whose `remove()`, or the end of its `with` block, takes all of it back.

        Raises:
            RegistrationError: The source has no marks, a name is taken, an extension is there with other settings, or a
                provider does not name its kinds. Then nothing is included.
        """
        from ..components.included import Inclusion
        from ..components.marking import marked
        from ..components.prefix import prefixed
        from .provider import Provider

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
        topics: What its clients may listen to.

    Raises:
        RegistrationError: The identifier breaks the rule, or JSON cannot carry the settings.
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
        """Let clients listen to something by keys, such as jobs by their ids (basic/patterns/subscriptions).

        A client that has declared the extension asks for `notifications.<member>`, an array of keys, when it sends
        `subscriptions/listen`; what is published under one of them it gets as the notification.

        Args:
            member: The member of the filter, such as `jobIds`.
            notification: Its method, such as `notifications/jobs`.
            accept: Given the keys that a client asks for and the Context of its request, returns those that are
                honoured, which the client is told; it may raise a ProtocolError. It is called in the event loop, so
                it must be quick, and not async. All keys are honoured when None.

        Returns:
            What tells it: `topic.publish(key, params)`.

        Raises:
            RegistrationError: The member is taken; it or the notification is none, or one of the core protocol; or
                `accept` is no function, or an async one.
        """
        from .topic import SubscriptionTopic  # which few servers need

        topic = SubscriptionTopic(member, notification, accept, self.catalog.listeners.tell)
        with self.catalog.lock:
            before = self.topics
            if any(each.member == member for each in before):
                raise RegistrationError(f"{self!r} already has a topic {member!r}")
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
        """Say whether the client has declared the extension, in a revision that knows extensions.

        A client of an older revision may have declared it all the same: `ctx.client.supports(capability)`.
        """
        return ctx.protocol_version in _REVISIONS and ctx.client.supports(self.capability)

    def client_settings(self, ctx: CallContext) -> dict[str, Any] | None:
        """Return what the client has declared of the extension; None where it does not support it."""
        if not self.is_supported(ctx):
            return None
        settings: Json = ctx.client.capabilities["extensions"][self.identifier]
        return settings

    async def notify(self, ctx: CallContext, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification of the extension, as part of a request; only to clients that know it (`is_supported`).

        Args:
            ctx: The request.
            method: Its method, such as `notifications/thing/changed`; none of the core protocol.
            params: Its params, a JSON object.

        Raises:
            RuntimeError: The call has ended.
            ValueError: The method is no notification, or one of the core protocol, or the params are not JSON.
        """
        from ..calls.reporting import send_notification

        await send_notification(call_of(ctx), method, params)

    def result(self, ctx: CallContext, result_type: str, members: Any = None) -> ExtensionResult:
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
        """Show the identifier."""
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
