"""Registries, which include providers, registries and servers; and extensions of the protocol."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from typing_extensions import Self

from .._utils.concurrency import Listeners
from .._utils.exceptions import MissingCapabilityError, RegistrationError
from ..components.component import Component, access_of, capabilities, json_object
from ..components.registry_and_decorators import (
    Build,
    Catalog,
    CatalogOwner,
    Components,
    Decorators,
    MethodOptions,
    check_is_function,
    marked,
)
from ..content.blocks import ExtensionResult, blocking_allowed
from ..content.json_encoding import json_value
from ..execution.lifespan import Lifespans
from ..identity.principals_and_scopes import Change
from ..middleware.base import MiddlewareStack
from ..protocol.jsonrpc import Json, is_object
from ..protocol.revisions import ALL, RESULT_TYPES, knows, tree
from ..providers.provider_and_transforms import (
    KINDS,
    HiddenTags,
    Kind,
    Prefix,
    Provider,
    ProviderWatch,
    Transform,
    check_kinds,
    check_provided,
    transformed,
)
from ..requests.request_record import call_of

if TYPE_CHECKING:
    from ..providers.provider_and_transforms import Lookup
    from ..requests.request_record import CallContext
    from .base_tool_and_subscription_topic import Accept, SubscriptionTopic

_LABEL = "[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
# A key of `_meta` with a prefix (basic/index, "_meta"); one with nothing after the slash names nothing.
_IDENTIFIER = rf"{_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"

# The revisions in which extensions are negotiated.
_REVISIONS = tuple(each for each in ALL if knows(each, "ServerCapabilities", "extensions"))


class _Included:
    """A provider in a catalog, and the copies of its static components that the catalog serves.

    Attributes:
        source: The provider, or the catalog of a registry or server.
        transforms: Its transforms, innermost first.
        copies: By static kind, the copy of each component of the snapshot; None for one that is hidden or was refused.
            The methods of a catalog are one of its kinds.
        lookup: The provider as it is looked up at each request; None if it is static.
        lifespans: The lifespan of the provider; None if it has none.
    """

    def __init__(self, source: Provider, transforms: tuple[Transform, ...], home: Lifespans | None) -> None:
        self.source = source
        self.transforms = transforms
        kinds: list[Any] = [*source.kinds, *(["methods"] if isinstance(source, CompositeCatalog) else [])]
        dynamic = frozenset(kind for kind in kinds if source.snapshot(kind) is None)
        self.copies: dict[Any, dict[Component, Component | None]] = {
            kind: {} for kind in kinds if kind not in dynamic
        }
        has_lifespan = type(source).lifespan is not Provider.lifespan
        self.lifespans = Lifespans(source.lifespan) if has_lifespan else None
        self.lookup: Lookup | None = None
        if dynamic:
            from ..providers.provider_and_transforms import Lookup

            self.lookup = Lookup(source, dynamic, transforms, home, self.lifespans)

    @property
    def kinds(self) -> set[Any]:
        """Kinds that clients are notified of when it is included or removed: all kinds of a provider."""
        if not isinstance(self.source, CompositeCatalog):
            return set(self.source.kinds)
        dynamic = {kind for lookup in self.source.providers for kind in lookup.kinds}
        return dynamic | {kind for kind, copies in self.copies.items() if copies}

    def difference(self, kind: Any) -> tuple[list[Component], list[Component]]:
        """Read the snapshot of a kind again, and return the components that are new, and those that are gone."""
        snapshot, copies = self.source.snapshot(kind) or (), self.copies[kind]
        return [each for each in snapshot if each not in copies], list(copies.keys() - set(snapshot))

    def lookups(self) -> Iterator[Lookup]:
        """Yield the dynamic providers, with the transforms."""
        if self.lookup is not None:
            yield self.lookup
        elif isinstance(self.source, CompositeCatalog):
            yield from (each.within(self.transforms, None) for each in self.source.providers)


class CompositeCatalog(Catalog, Provider):
    """Components of a registry or server, with those of the providers, registries and servers that it includes.

    Static components are in one dict for each kind, so that a call is one look-up, however deep they were included.
    Dynamic ones are looked up in `providers`.

    Attributes:
        providers: The dynamic providers in order of inclusion, those of included catalogs too.
        attached: The extensions in the order of registration, duplicates of one identifier included.
        extensions: The extensions by identifier, those of included catalogs too.
        structure_listeners: Called when an extension or a provider is added or removed, or the middleware of an
            extension changes.
        is_protected: Whether access tokens are verified over HTTP for these components.
    """

    kinds = frozenset(KINDS)

    def __init__(
        self, lifespans: Lifespans | None = None, check: Callable[[Component], None] | None = None
    ) -> None:
        super().__init__(lifespans, check)
        self.is_protected = False
        self.structure_listeners: Listeners[[]] = Listeners()
        self.providers: tuple[Lookup, ...] = ()
        self.attached: tuple[Extension, ...] = ()
        self.extensions: Mapping[str, Extension] = {}
        self._own_extension: Extension | None = None
        self._included: list[_Included] = []

    @property
    def included(self) -> list[CompositeCatalog]:
        """The catalogs that are included, with their later changes."""
        return [each.source for each in self._included if isinstance(each.source, CompositeCatalog)]

    @property
    def includes_protected(self) -> bool:
        """True if an included catalog, at any depth, belongs to a server that verifies access tokens."""
        return any(each.is_protected or each.includes_protected for each in self.included)

    def family(self) -> list[Lifespans]:
        """Return the lifespans of this catalog and of all that it includes, once each, innermost first."""
        found: dict[Lifespans | None, None] = {}
        for each in self._included:
            if isinstance(each.source, CompositeCatalog):
                found.update(dict.fromkeys(each.source.family()))
            found[each.lifespans] = None
        found[self.lifespans] = None
        return [each for each in found if each is not None]

    def snapshot(self, kind: Kind) -> tuple[Component, ...]:
        """Return the static components of a kind, or the methods."""
        return self._part(kind).snapshot()

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

    def include(self, source: Provider, transforms: Iterable[Transform] = ()) -> Callable[[], None]:
        """Include a provider or another catalog with its later changes, and return a function that removes it.

        Args:
            source: The provider or catalog.
            transforms: Transforms of its components, innermost first.

        Raises:
            RegistrationError: A name is taken, an extension exists with other settings, a catalog would include itself,
                a provider is included already, or its kinds are missing or unknown. Then nothing is included.
        """
        transforms = tuple(transforms)
        locks: list[AbstractContextManager[Any]] = [self.lock]
        if isinstance(source, CompositeCatalog):
            if source is self or _includes(source, self):
                raise RegistrationError(
                    "a server or router cannot include itself, directly or through another one"
                )
            # The inner lock first, as for changes: no change falls between the copy and the listening.
            locks = [source.lock, self.lock]
        else:
            check_kinds(source)
            if any(each.source is source and each.transforms == transforms for each in self._included):
                raise RegistrationError(
                    f"{source!r} is already included with this prefix. Remove one include(...), or use another prefix"
                )
        with ExitStack() as within, ExitStack() as undo:
            for lock in locks:
                within.enter_context(lock)
            included = _Included(source, transforms, self.lifespans)
            self._included.append(included)
            undo.callback(self._exclude, included)
            self.collect()
            if isinstance(source, CompositeCatalog):
                undo.callback(source.followers.add(partial(self._follow, included)))
                undo.callback(source.structure_listeners.add(self.collect))
            undo.callback(source.listeners.add(partial(self._forward, included)))
            for kind in included.copies:
                self._update(included, kind)
            self._notify(included.kinds)
            return _at_once(undo.pop_all(), *locks)

    def _exclude(self, included: _Included) -> None:
        kinds = included.kinds
        self._included.remove(included)
        for kind, copies in included.copies.items():
            for copy in filter(None, copies.values()):
                self._part(kind).delete(copy)
        self.collect()
        self._notify(kinds)

    def _update(self, included: _Included, kind: Kind, added: Component | None = None) -> bool:
        """Copy the components that are new in the snapshot of a provider, and remove those that are gone.

        A copy that was removed or replaced here is not added again.

        Args:
            included: The provider.
            kind: Kind of the components.
            added: The only component that is new; None compares the snapshot.

        Returns:
            Whether there were any.

        Raises:
            RegistrationError: A component cannot be served, or its name is taken. The others are served.
            TypeError: The snapshot has something else.
        """
        part, source, copies = self._part(kind), included.source, included.copies[kind]
        fresh, gone = included.difference(kind) if added is None else ([added], [])
        present = {
            copy.key: (each, copy)
            for each in gone
            if (copy := copies.pop(each)) is not None and part.holds(copy)
        }
        new: list[tuple[Component, Component]] = []
        errors: list[Exception] = []
        for each in fresh:
            copies[each] = None
            try:
                if not isinstance(source, CompositeCatalog):
                    check_provided(type(source).__qualname__, kind, each)
                copy = transformed(each, included.transforms)
                if copy is not None:
                    part.prepare(copy)
                    new.append((each, copy))
            except (RegistrationError, TypeError) as error:
                errors.append(error)
        for key in present.keys() - {copy.key for _, copy in new}:
            part.delete(present[key][1])
        for each, copy in new:
            is_replaced = copy.key in present
            if is_replaced:
                original, old = present.pop(copy.key)
                if original.is_enabled and not old.is_enabled and not part.hides(old):
                    copy.is_enabled = False  # as it was disabled here by its key
            copy.home = copy.home or self.lifespans
            try:
                part.insert(copy, replace=is_replaced)
                copies[each] = copy
            except RegistrationError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return bool(fresh or gone)

    def _follow(self, included: _Included, kind: Any, component: Component | None) -> None:
        """Follow a change of an included catalog, see `followers`."""
        with self.lock:
            part, copies = self._part(kind), included.copies[kind]
            if component is None or component not in copies:
                try:
                    self._update(included, kind, component)
                finally:
                    self.part_changed(part, copies.get(component) if component is not None else None)
            elif (copy := copies[component]) is not None and part.holds(copy):
                part.switch(copy.key, is_enabled=component.is_enabled and not part.hides(copy))

    def _forward(self, included: _Included, change: Change) -> None:
        """Pass on a change of an included provider or catalog to clients."""
        if change.uri is not None:
            uri = change.uri
            for transform in included.transforms:
                uri = transform.rename("resources", uri)
            self.listeners.notify(Change(change.kind, uri, change.audience))
        elif change.key is not None:
            self.listeners.notify(change)
        elif not isinstance(included.source, CompositeCatalog):  # else `_follow` gets it
            with self.lock:
                for kind in included.source.kinds:
                    part = self._part(kind)
                    if part.list_name == change.kind:
                        is_changed = True
                        try:
                            is_changed = kind not in included.copies or self._update(included, kind)
                        finally:
                            if is_changed:
                                self.part_changed(part)

    def _notify(self, kinds: Iterable[Any]) -> None:
        for part in self.parts:
            if part.name in kinds:
                self.part_changed(part)

    def _part(self, kind: str) -> Components[Any]:
        part: Components[Any] = getattr(self, kind)
        return part

    def watches(self, uri: str) -> Iterator[ProviderWatch]:
        """Yield the watches of providers that are to run while a client is subscribed to a URI."""
        for each in self._included:
            plain: str | None = uri
            for transform in reversed(each.transforms):
                plain = None if plain is None else transform.original("resources", plain)
            if plain is None:
                continue
            if isinstance(each.source, CompositeCatalog):
                yield from (watch._replace(key=uri) for watch in each.source.watches(plain))
            elif type(each.source).watch is not Provider.watch:
                yield ProviderWatch(each.source, plain, uri)

    @property
    def has_watches(self) -> bool:
        """True if a provider has watches."""
        return any(
            each.source.has_watches
            if isinstance(each.source, CompositeCatalog)
            else type(each.source).watch is not Provider.watch
            for each in self._included
        )

    def switch(self, tags: Collection[str], *, is_hidden: bool) -> None:
        """Hide or show all components with one of these tags, see `CatalogOwner.disable`."""
        with self.lock:
            super().switch(tags, is_hidden=is_hidden)
            if self.providers:
                self.collect()
                self._notify({kind for lookup in self.providers for kind in lookup.kinds})

    def declare(self, extension: Extension) -> None:
        """Make this the catalog of an extension."""
        self._own_extension = extension
        self.attached = (extension,)
        self.extensions = {extension.identifier: extension}

    def collect(self) -> None:
        """Collect the extensions and the dynamic providers of the included catalogs again.

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
            members: dict[str, str] = {}
            for each in attached:
                present = extensions.setdefault(each.identifier, each)
                if present.settings != each.settings:
                    raise RegistrationError(
                        f"two extensions are named {each.identifier!r}, with the settings {present.settings!r} "
                        f"and {each.settings!r}. Create one, and include it where it is needed"
                    )
                for topic in each.topics:
                    owner = members.setdefault(topic.member, each.identifier)
                    if owner != each.identifier:
                        raise RegistrationError(
                            f"the extensions {owner!r} and {each.identifier!r} both have a topic {topic.member!r}. "
                            "Rename one of them"
                        )
            self.attached, self.extensions = tuple(attached), extensions
            hidden = [HiddenTags(self.hidden_tags)] if self.hidden_tags else []
            lookups = [
                lookup.within(hidden, self.lifespans) for each in self._included for lookup in each.lookups()
            ]
            self.providers = tuple(sorted(lookups, key=lambda lookup: lookup.position))
            self.structure_listeners.notify()


class Inclusion:
    """The result of `include`. `remove()`, or the end of a `with` block, undoes it.

    Args:
        source: The included object.
        on_remove: Function that undoes the inclusion; further calls have no effect.

    Attributes:
        source: The included object.
    """

    def __init__(self, source: object, on_remove: Callable[[], None]) -> None:
        self.source = source
        self._on_remove = on_remove

    def remove(self) -> None:
        """Remove in one step what was included: components, extensions with their middleware, later changes.

        Components that were removed or replaced meanwhile stay as they are, and running calls continue. The lifespan of
        an included server is left when the outer server ends. It may be called from any thread; further calls have no
        effect.
        """
        self._on_remove()

    def __enter__(self) -> Self:
        """Return this object; the components are included within the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove what was included."""
        self.remove()

    def __repr__(self) -> str:
        """Return the included object."""
        return f"<Included {self.source!r}>"


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
        transforms = [Prefix(prefix)] if prefix else []
        provider = source.catalog if isinstance(source, Registry) else source
        if isinstance(provider, Provider):
            return Inclusion(source, self.catalog.include(provider, transforms))
        found = [source] if isinstance(source, Component) else [*marked(source)]
        if not found:
            raise RegistrationError(
                f"{source!r} contains nothing to include. Decorate functions with @tool, @resource or @prompt"
            )
        for transform in transforms:
            found = [transform.apply(component) for component in found]
        return Inclusion(source, self.catalog.add_all(found))


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
        self.middleware = MiddlewareStack(self.catalog.methods, self.catalog.structure_listeners.notify)
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
        from .base_tool_and_subscription_topic import SubscriptionTopic  # which few servers need

        topic = SubscriptionTopic(member, notification, accept, self.catalog.listeners.notify)
        with self.catalog.lock:
            before = self.topics
            if any(each.member == member for each in before):
                raise RegistrationError(
                    f"{self!r} already has a topic {member!r}. Use that one, or choose another member"
                )
            self.topics = (*before, topic)
            try:
                self.catalog.collect()
            except RegistrationError:
                self.topics = before
                self.catalog.collect()
                raise
        return topic

    def _of_method(self, name: str, options: Json) -> Json:
        access = access_of(f"method {name!r}", cast("MethodOptions", options))
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
        return call_of(ctx).revision in _REVISIONS and call_of(ctx).client.supports(self.capability)

    def client_settings(self, ctx: CallContext) -> dict[str, Any] | None:
        """Return the settings with which the client has declared the extension; None if it does not support it.

        Args:
            ctx: The request.
        """
        if not self.is_supported(ctx):
            return None
        settings: Json = call_of(ctx).client.capabilities["extensions"][self.identifier]
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
        from ..context import send_notification

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
        with blocking_allowed():  # the author's function has it now
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
