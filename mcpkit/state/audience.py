"""Whom an update is for."""

from __future__ import annotations

import inspect
from typing import Any, cast

from .principal import Principal
from .visibility import Predicate, says


class Audience:
    """Some of those who listen.

    Args:
        ids: Who they are, whatever they have been granted.
        principals: Who they are, with just these scopes.
        predicates: What says so of others.
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
        """Return those whom an author names.

        Args:
            to: A Principal, by whose id they are known, or a function of a Principal.

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
        """Return all who are the same as a principal: by the id, or, where nobody knows that, by the scopes."""
        if principal.id is None:
            return cls(principals=frozenset({principal}))
        return cls(ids=frozenset({principal.id}))

    def holds(self, principal: Principal) -> bool:
        """Say whether a principal belongs to it; where a function cannot say so, they do not."""
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
        """Return those of both."""
        return Audience(
            self.ids | other.ids, self.principals | other.principals, self.predicates | other.predicates
        )
