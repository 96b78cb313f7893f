"""The author's `watch=` functions, which run while clients are subscribed."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from .._utils.exceptions import ArgumentsError
from ..components.component import is_template
from ..content.uri_normalization import normalized
from ..identity.principals_and_scopes import Change, Principal
from ..providers.provider_and_transforms import ProviderWatch
from .included_providers_and_extensions import CompositeCatalog

if TYPE_CHECKING:
    from ..components.resource import Resource, ResourceTemplate

logger = logging.getLogger(__name__)

FIRST_DELAY = 1.0
# Seconds until a watch that failed starts again: doubled each time, until it yields.
MAX_DELAY = 60.0


class _Key(NamedTuple):
    """The subject of a watch.

    Attributes:
        component: The resource or the template, or the watch of a provider.
        uri: The URI, if each has its own watch.
        principal: The subscribed user, if each has its own watch.
    """

    component: Resource | ResourceTemplate | ProviderWatch
    uri: str | None
    principal: Principal | None = None


class Watches:
    """The `watch=` functions that run in one event loop for its subscribers.

    Their updates are delivered in this event loop only: subscribers of another loop or process have their own watches.

    Args:
        catalog: Components of the server.
        ready: Waits until the lifespans have been entered.
        publish: Takes the changes.
        subscribers: Returns the users that are subscribed to a change and may get it.
    """

    def __init__(
        self,
        catalog: CompositeCatalog,
        ready: Callable[[], Awaitable[None]],
        publish: Callable[[Change], None],
        subscribers: Callable[[Change], Collection[Principal]],
    ) -> None:
        self._catalog = catalog
        self._ready = ready
        self._publish = publish
        self._subscribers = subscribers
        self._keys: dict[Change, tuple[_Key, ...]] = {}
        self._running: dict[_Key, _Watch] = {}
        self._ending: dict[_Key, asyncio.Task[None]] = {}

    def __contains__(self, change: object) -> bool:
        """Return True if a change has subscribers."""
        return change in self._keys

    def update(self, change: Change) -> None:
        """Start and stop watches of a change after its subscribers have changed."""
        before = self._keys.get(change)
        if before is None or any(key.principal is not None for key in before):
            self._set(change, self._keys_of(change))

    def remove(self, change: Change) -> None:
        """Stop the watches of a change that has no subscriber any more."""
        if change in self._keys:
            self._set(change, ())
            del self._keys[change]

    def refresh(self) -> None:
        """Update all watches, after components have changed."""
        parts = (self._catalog.resources, self._catalog.resource_templates)
        is_watched = self._catalog.has_watches or any(each.watch for part in parts for each in part)
        if self._running or is_watched:
            for change in tuple(self._keys):
                self._set(change, self._keys_of(change))

    def _set(self, change: Change, keys: tuple[_Key, ...]) -> None:
        """Run these watches for a change, and stop others that run for no other change."""
        before = self._keys.get(change, ())
        self._keys[change] = keys
        for key in keys:
            if key not in self._running:
                self._running[key] = _Watch(self._ready, key, self._publish, self._ending.get(key))
            self._running[key].users[change] = None
        for key in before:
            if key in keys:
                continue
            watch = self._running[key]
            del watch.users[change]
            if not watch.users:
                del self._running[key]
                self._ending[key] = watch.stop()
                self._ending[key].add_done_callback(partial(self._ended, key))

    def _ended(self, key: _Key, task: asyncio.Task[None]) -> None:
        if self._ending.get(key) is task:
            del self._ending[key]

    def _keys_of(self, change: Change) -> tuple[_Key, ...]:
        """Return the watches of a change; for a URI, those of the component that serves it."""
        keys: list[_Key] = []
        for component, uri in self._watched_for(change):
            if isinstance(component, ProviderWatch) or component.watched.principal is None:
                keys.append(_Key(component, uri))
            else:
                keys += [_Key(component, uri, principal) for principal in self._subscribers(change)]
        return tuple(keys)

    def _watched_for(
        self, change: Change
    ) -> Iterator[tuple[Resource | ResourceTemplate | ProviderWatch, str | None]]:
        """Yield the components to watch for a change, each with the URI if every URI has its own watch."""
        uri = change.uri
        templates = self._catalog.resource_templates
        if change.kind == "resources":
            # The entries of a template are part of the list of resources, which its watch updates, too.
            for template in templates:
                has_entries = template.is_enabled and template.list_entries
                if has_entries and template.watch and not template.watched.variables:
                    yield template, None
        if uri is None:
            return
        yield from ((watch, None) for watch in self._catalog.watches(uri))
        resource = self._catalog.resources.spelled(uri)
        if resource is not None:
            if resource.watch:
                yield resource, None
            return
        if is_template(uri):
            same = templates.spelled(uri)
            if same is not None and same.watch and not same.watched.variables:
                yield same, None
            return
        for template in templates:
            if template.is_enabled and template.template.match(uri) is not None:
                if template.watch is not None and _arguments(template, uri) is not None:
                    yield template, uri if template.watched.variables else None
                return


def _arguments(template: ResourceTemplate, uri: str) -> dict[str, Any] | None:
    """Return the arguments of the watch of one URI, or None if the template's function does not accept them."""
    try:
        values = template.arguments.validate_strings(template.template.match(uri) or {})
    except ArgumentsError:
        return None
    return {name: values[name] for name in template.watched.variables if name in values}


class _Watch:
    """A running `watch=` function.

    Attributes:
        users: The subscribed changes for which it runs.
    """

    def __init__(
        self,
        ready: Callable[[], Awaitable[None]],
        key: _Key,
        publish: Callable[[Change], None],
        previous: asyncio.Task[None] | None,
    ) -> None:
        from ..identity.principals_and_scopes import Audience

        self._ready = ready
        self._component, self._uri, self._principal = key
        self._audience = None if self._principal is None else Audience.for_principal(self._principal)
        self._publish = publish
        self._is_stopped = False
        self._previous = previous
        self.users: dict[Change, None] = {}
        # It runs for all subscribers: not as a part of the first one's request, with its log and its headers.
        self._task = contextvars.Context().run(
            asyncio.get_running_loop().create_task,
            self._run(),
            name=f"mcpkit-watch {self._uri or self._component.key}",
        )

    def stop(self) -> asyncio.Task[None]:
        """Close the function, and return the task that ends after its cleanup."""
        self._is_stopped = True
        self._task.cancel()
        return self._previous or self._task

    async def _run(self) -> None:
        if self._previous is not None:
            await asyncio.wait((self._previous,))
            self._previous = None
        delay = FIRST_DELAY
        while True:
            try:
                await self._ready()
                async with aclosing(self._start()) as updates:
                    async for update in updates:
                        delay = FIRST_DELAY
                        if self._is_stopped:
                            return
                        self._publish_update(update)
            except Exception:
                ends = "it stopped" if self._is_stopped else f"it restarts in {delay:g} s"
                logger.exception("the watch of %s failed; %s", self._uri or self._component.key, ends)
            else:
                return
            if self._is_stopped:
                return
            await asyncio.sleep(delay)
            delay = min(delay * 2, MAX_DELAY)

    def _start(self) -> AsyncGenerator[Any, None]:
        if isinstance(self._component, ProviderWatch):
            return self._component.watch()
        watch = self._component.watch
        assert watch is not None, "a component with a watch"
        arguments: dict[str, Any] = {}
        if self._uri is not None:
            arguments = _arguments(cast("ResourceTemplate", self._component), self._uri) or {}
        if (name := self._component.watched.principal) is not None:
            arguments[name] = self._principal
        return watch(**arguments)

    def _publish_update(self, update: Any) -> None:
        component = self._component
        assert not isinstance(component, ProviderWatch), "it yields nothing"
        if self._uri is not None or component.kind == "resource":
            uris = [self._uri or component.key]
        elif update is None:
            self._publish(Change("resources", None, self._audience))
            return
        elif not isinstance(update, str):
            raise TypeError(
                f"watch= of the template {component.key!r} yielded {update!r}. "
                "Yield the URI that was updated, or None when the list of resources changed"
            )
        else:
            uri = cast("ResourceTemplate", component).included_uri(update)
            uris = [uri]
            if uri.endswith("/"):  # all subscribed URIs below it
                below = normalized(uri)
                subscribed = [each.uri for each in self.users if each.uri and not is_template(each.uri)]
                uris = [
                    each for each in subscribed if each.startswith(uri) or normalized(each).startswith(below)
                ]
        for uri in uris:
            self._publish(Change("resource", uri, self._audience))
