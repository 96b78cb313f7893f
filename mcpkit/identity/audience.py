"""Recipients of a change notification."""

from __future__ import annotations

import inspect
from typing import Any, cast

from .principal import Principal
from .visibility import Predicate, says


class Audience:
    """A set of principals that receive a change notification.

    Args:
        ids: Ids of principals, with any scopes.
        principals: Principals with exactly these scopes.
        predicates: Functions that decide about other principals.
    """

    __slots__ = ("ids", "predicates", "principals")

    def __init__(
        self,
        ids: frozenset[str] = frozenset(),
        principals: frozenset[Principal] = frozenset(),
        predicates: frozenset[Predicate] = frozenset(),
    ) -> None:
        self.ids = ids
        self.principals = principals
        self.predicates = predicates

    @classmethod
    def of(cls, to: Any) -> Audience:
        """Return the audience of an option `to=`.

        Args:
            to: A Principal, which stands for its id, or a function of a Principal.

        Raises:
            TypeError: It is neither, or an async function.
            ValueError: It is a Principal without an id.
        """
        if isinstance(to, Principal):
            if to.id is None:
                raise ValueError(
                    "to=Principal() has no id, so it matches no client. Pass a Principal with an id, or "
                    "leave out `to` to notify all clients"
                )
            return cls(ids=frozenset({to.id}))
        if not callable(to) or inspect.iscoroutinefunction(to):
            raise TypeError(
                "to must be a Principal or a function of a Principal that is not async, such as lambda "
                f'who: "admin" in who.scopes; got {to!r}'
            )
        predicate: Predicate = cast("Predicate", to)
        return cls(predicates=frozenset({predicate}))

    @classmethod
    def same_as(cls, principal: Principal) -> Audience:
        """Return all principals with the same id or, for an anonymous principal, the same scopes."""
        if principal.id is None:
            return cls(principals=frozenset({principal}))
        return cls(ids=frozenset({principal.id}))

    def holds(self, principal: Principal) -> bool:
        """Return True if a principal belongs to the audience; False if a function fails."""
        return (
            principal.id in self.ids
            or principal in self.principals
            or any(
                says(
                    predicate,
                    principal,
                    "the client of principal %r was not notified of an update, because the function given as "
                    "to= %s",
                    principal.id,
                )
                for predicate in self.predicates
            )
        )

    def __or__(self, other: Audience) -> Audience:
        """Return the union."""
        return Audience(
            self.ids | other.ids, self.principals | other.principals, self.predicates | other.predicates
        )
