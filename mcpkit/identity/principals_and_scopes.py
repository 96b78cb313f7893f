"""Principals, the scopes of a server, predicates over principals, and the changes of which they are notified."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, cast, get_args

from .._utils.exceptions import RegistrationError

logger = logging.getLogger(__name__)

_NO_CLAIMS: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, init=False)
class Principal:
    """The authenticated client or user of a request, and its scopes (basic/authorization).

    With `Server(auth=...)` it comes from the verified access token. Without, mcpkit verifies no identity: over HTTP the
    principal comes from an authentication middleware, through `asgi(principal=)`; elsewhere from `run(principal=)`.

    Args:
        id: Identifier, the same in all requests of the principal; None for an anonymous client.
        scopes: Scopes that the credentials of the request grant, such as `{"files:read"}`. While a request is served,
            they include the scopes that these imply according to `Server(scopes=...)`.
        client_id: The OAuth client that sent the request, for itself or for a user; None if unknown.
        issuer: Issuer identifier of the authorization server; None if there is none.
        subject: Identifier of the user at the issuer; None for a client that acts for itself.
        claims: Other claims of the token, such as `{"org_id": "acme"}`. They are not in the repr and are ignored when
            principals are compared.

    Raises:
        TypeError: The id is not a string, or the scopes are not a set of strings.
        ValueError: The id is empty, so that all principals without one would be equal.
    """

    id: str | None
    scopes: frozenset[str]
    client_id: str | None
    issuer: str | None = field(compare=False)
    subject: str | None = field(compare=False)
    claims: Mapping[str, object] = field(compare=False, repr=False)

    def __init__(
        self,
        id: str | None = None,  # noqa: A002 - the attribute's name
        scopes: Collection[str] = (),
        *,
        client_id: str | None = None,
        issuer: str | None = None,
        subject: str | None = None,
        claims: Mapping[str, object] = _NO_CLAIMS,
    ) -> None:
        if id is not None and not isinstance(id, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(f"id must be a string, or None for an anonymous client, got {id!r}")
        if id == "":
            raise ValueError("id must not be empty. Use None for an anonymous client")
        if isinstance(scopes, str) or not all(isinstance(scope, str) for scope in scopes):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(f'scopes must be a set of strings such as {{"files:read"}}, got {scopes!r}')
        for name, value in (("client_id", client_id), ("issuer", issuer), ("subject", subject)):
            if value is not None and not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
                raise TypeError(f"{name} must be a string or None, got {value!r}")
        claims = MappingProxyType(dict(claims)) if claims else _NO_CLAIMS
        fields = id, frozenset(scopes), client_id, issuer, subject, claims
        vars(self).update(zip(self.__dataclass_fields__, fields, strict=True))  # the dataclass is frozen

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the pickled form: a mapping proxy, as of the claims, cannot be pickled."""
        return partial(Principal, **{**vars(self), "claims": dict(self.claims)}), ()

    def granted(self, scopes: Collection[str]) -> Principal:
        """Return a copy with other scopes.

        Args:
            scopes: The scopes of the copy.
        """
        return replace(self, scopes=frozenset(scopes))


def user(
    issuer: str,
    subject: str,
    scopes: Collection[str] = (),
    *,
    client_id: str | None = None,
    claims: Mapping[str, object] = _NO_CLAIMS,
) -> Principal:
    """Return the principal of a user. Its id is unique, as an issuer has no fragment (RFC 8414, section 2)."""
    return Principal(
        f"{issuer}#sub={subject}", scopes, client_id=client_id, issuer=issuer, subject=subject, claims=claims
    )


def client(
    issuer: str, client_id: str, scopes: Collection[str] = (), *, claims: Mapping[str, object] = _NO_CLAIMS
) -> Principal:
    """Return the principal of a client that acts for itself. Its id never equals that of a user."""
    return Principal(
        f"{issuer}#client={client_id}", scopes, client_id=client_id, issuer=issuer, claims=claims
    )


ANYONE = Principal()
"""The principal of requests without authentication."""


def checked_principal(principal: object) -> Principal:
    """Return the principal of all requests, checked.

    Raises:
        TypeError: It is not a Principal.
    """
    if not isinstance(principal, Principal):
        raise TypeError(f'principal must be a Principal, such as Principal("ada"), got {principal!r}')
    return principal


# Digests of principals. `hashlib` is imported on use, because it loads OpenSSL, which a server on stdio never needs.


def owner_of(principal: Principal) -> str | None:
    """Return a digest of a principal's id and client, which other users may see.

    It identifies the owner of a session, a task or a state of a request. It does not depend on scopes, so the owner
    stays the same with the next access token.

    Returns:
        32 characters; None for an anonymous principal.
    """
    return None if principal.id is None else _owner_digest(principal.id, principal.client_id)


@lru_cache(1024)  # each request of a session calls it
def _owner_digest(id_: str, client_id: str | None) -> str:
    from hashlib import sha256

    data = id_.encode("utf-8", "surrogatepass")
    if client_id is not None:
        data += b"\xff" + client_id.encode("utf-8", "surrogatepass")  # no text contains this byte
    return sha256(data).hexdigest()[:32]


def digest_of(id_: str) -> str:
    """Return a digest of a principal's id, with any client, for keys in a shared storage."""
    from hashlib import sha256

    return sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()


# Predicates

# Returns whether a principal may see a component or receive a change; fast and deterministic
Predicate = Callable[[Principal], bool]


def check_visible(what: str, visible: Any) -> None:
    """Check a predicate.

    Raises:
        RegistrationError: It is not a function, or it is async.
    """
    if visible is not None and not callable(visible):
        raise RegistrationError(
            f"{what} must be a function of the principal, such as "
            f'lambda principal: "admin" in principal.scopes; got {visible!r}'
        )
    if inspect.iscoroutinefunction(visible):
        raise RegistrationError(
            f"{what} must not be async, as it is called for each list and each call. Look up what it needs while the "
            "request is authenticated, and store it in the scopes of the principal"
        )


def is_matched(predicate: Predicate, principal: Principal, problem: str, subject: object) -> bool:
    """Return the result of a predicate; False if it raises, or returns no bool.

    Args:
        predicate: The function.
        principal: Its argument.
        problem: Log message for a failure, with `%` places for the subject and for the failure.
        subject: Subject of the decision, for the log message.
    """
    try:
        answer: Any = predicate(principal)
    except Exception:  # a failure must not grant access
        logger.exception(problem, subject, "raised an exception")
        return False
    if not isinstance(answer, bool):
        logger.error(problem, subject, f"returned {answer!r} instead of True or False")
        return False
    return answer


# Changes

# The lists with a change notification in the protocol; templates belong to `resources`
ListName = Literal["tools", "prompts", "resources"]
LIST_NAMES: tuple[ListName, ...] = get_args(ListName)

# Members of the filter of `subscriptions/listen`: those that select a list, and the one with the URIs of resources
LISTS = {f"{name}ListChanged": name for name in LIST_NAMES}
RESOURCES = "resourceSubscriptions"


class Change:
    """A change of a list or a resource, or of a key of an extension's topic.

    Two changes are equal if the same subscription selects both, whatever their params and audiences. Of several equal
    ones in a row, only the latest is delivered.

    Args:
        kind: Name of the list; `resource`; or the notification of the topic, such as `notifications/jobs`.
        key: URI of the resource, or key under the topic; None for a list.
        audience: Recipients; all clients when None.
        params: Params of the notification of a topic; None for other changes and for subscriptions.
    """

    __slots__ = ("audience", "key", "kind", "params")

    # Not a dataclass: creating one takes as long as importing ten files, at each start of a server.
    def __init__(
        self,
        kind: str,
        key: str | None = None,
        audience: Audience | None = None,
        params: dict[str, Any] | None = None,
    ) -> None:
        self.kind = kind
        self.key = key
        self.audience = audience
        self.params = params

    @property
    def uri(self) -> str | None:
        """URI of the resource; None for other changes."""
        return self.key if self.kind == "resource" else None

    @property
    def is_lost(self) -> bool:
        """True for a change of a topic with unknown params, because messages were missed."""
        return self.key is not None and self.kind != "resource" and self.params is None

    def __eq__(self, other: object) -> bool:
        """Return True if the same subscription selects both."""
        return isinstance(other, Change) and other.kind == self.kind and other.key == self.key

    def __hash__(self) -> int:
        """Return the hash of what a subscription selects."""
        return hash((self.kind, self.key))

    def __or__(self, other: Change) -> Change:
        """Return a change with the params of the later one and the audiences of both."""
        mine, others = self.audience, other.audience
        both = None if mine is None or others is None else mine | others
        return Change(self.kind, self.key, both, other.params)


class Audience(NamedTuple):
    """A set of principals that receive a change notification.

    Args:
        ids: Ids of principals, with any scopes.
        principals: Principals with exactly these scopes.
        predicates: Functions that decide about other principals.
    """

    ids: frozenset[str] = frozenset()
    principals: frozenset[Principal] = frozenset()
    predicates: frozenset[Predicate] = frozenset()

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
        return cls(predicates=frozenset({cast("Predicate", to)}))

    @classmethod
    def for_principal(cls, principal: Principal) -> Audience:
        """Return all principals with the same id or, for an anonymous principal, the same scopes."""
        if principal.id is None:
            return cls(principals=frozenset({principal}))
        return cls(ids=frozenset({principal.id}))

    def holds(self, principal: Principal) -> bool:
        """Return True if a principal belongs to the audience; False if a function fails."""
        problem = (
            "the client of principal %r was not notified of an update, because the function given as to= %s"
        )
        return (
            principal.id in self.ids
            or principal in self.principals
            or any(is_matched(each, principal, problem, principal.id) for each in self.predicates)
        )

    def __or__(self, other: Audience) -> Audience:
        """Return the union."""
        return Audience(
            self.ids | other.ids, self.principals | other.principals, self.predicates | other.predicates
        )


# Scopes


class Scope:
    """A scope that the server defines, under its name in `Server(scopes={...})`.

    Args:
        description: What the scope allows, for the user who grants it: `Read notes`.
        default: Whether clients request the scope at their first login, before any request needed it.
        implies: Names of narrower scopes that this scope includes.

    Raises:
        TypeError: The description is not a string, `default` is not a bool, or `implies` is not a list of strings.
    """

    __slots__ = ("default", "description", "implies")

    def __init__(self, description: str, *, default: bool = False, implies: Collection[str] = ()) -> None:
        if not isinstance(description, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(
                f"the description of a Scope must be a string such as 'Read notes', got {description!r}"
            )
        if not isinstance(default, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(f"default must be True or False, got {default!r}")
        if isinstance(implies, str) or not all(isinstance(name, str) for name in implies):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(f'implies must be a list of scopes such as ["notes:read"], got {implies!r}')
        self.description = description
        self.default = default
        self.implies = tuple(implies)

    def __repr__(self) -> str:
        """Return the call that creates an equal scope."""
        return f"Scope({self.description!r}, default={self.default}, implies={list(self.implies)})"


class Scopes:
    """The scopes of a server, by name.

    Args:
        table: The scopes by name; a string stands for a `Scope` with that description.

    Attributes:
        table: Each scope by its name, in the order of definition.
        defaults: Names of the scopes that clients request at first.

    Raises:
        TypeError: The table is not a mapping of names to scopes.
        ValueError: A name is not a valid OAuth scope, is `offline_access`, or a scope implies an undefined one.
    """

    def __init__(self, table: Mapping[str, Scope | str] | None = None) -> None:
        if table is not None and not isinstance(table, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(
                f'scopes must be a mapping such as {{"notes:read": Scope("Read notes")}}, got {table!r}'
            )
        self.table = {
            check_name(name): scope if isinstance(scope, Scope) else Scope(scope)
            for name, scope in (table or {}).items()
        }
        for name, scope in self.table.items():
            for implied in scope.implies:
                if implied not in self.table:
                    raise ValueError(f"scopes: {name!r} implies {implied!r}, {self._unknown(implied)}")
        self.defaults = tuple(name for name, scope in self.table.items() if scope.default)
        self._implied: dict[str, frozenset[str]] = {}  # what each scope implies, with itself
        for name in self.table:
            found, waiting = {name}, [name]
            while waiting:
                new = set(self.table[waiting.pop()].implies) - found
                found |= new
                waiting += new
            self._implied[name] = frozenset(found)

    def _unknown(self, name: str) -> str:
        from .._utils.option_checks import nearest

        guess = nearest(name, self.table)
        hint = f"did you mean {guess!r}?" if guess is not None else f"defined are {', '.join(self.table)}"
        return f"which is not defined in the server's scopes=; {hint}"

    def expanded(self, granted: Collection[str]) -> frozenset[str]:
        """Return granted scopes with all that they imply."""
        if not self.table:
            return frozenset(granted)
        return frozenset(granted).union(*(self._implied.get(name, ()) for name in granted))

    def of(self, principal: Principal) -> Principal:
        """Return a principal with all scopes that its scopes imply."""
        if not self.table or not principal.scopes:
            return principal
        scopes = self.expanded(principal.scopes)
        return principal if scopes == principal.scopes else principal.granted(scopes)

    def reduced(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the smallest set of scopes with the same meaning, those of the table first and in its order."""
        unique = dict.fromkeys(names)
        known = [name for name in self.table if name in unique]
        needed: list[str] = []
        for name in known:
            wider = [each for each in known if each != name and name in self._implied[each]]
            # Of two that imply each other, the first one stays.
            if all(each in self._implied[name] and each not in needed for each in wider):
                needed.append(name)
        return (*needed, *(name for name in unique if name not in self.table))

    def check(self, what: str, names: Iterable[str]) -> None:
        """Check that the server defines scopes; a server without a table accepts all.

        Args:
            what: Beginning of the error: "tool 'add' needs".
            names: The scopes.

        Raises:
            RegistrationError: A scope is not defined.
        """
        for name in names:
            if self.table and name not in self.table:
                raise RegistrationError(f"{what} {name!r}, {self._unknown(name)}")


def check_text(name: object) -> str:
    """Return the name of a scope of any server, checked.

    Raises:
        TypeError: It is not a string.
        ValueError: It is not a valid OAuth scope.
    """
    if not isinstance(name, str):
        raise TypeError(f"a scope must be a string such as 'notes:read', got {name!r}")
    # As OAuth has it (RFC 6749, section 3.3).
    if name == "" or not all("!" <= character <= "~" and character not in '"\\' for character in name):
        raise ValueError(
            "a scope must consist of visible ASCII characters without quotes and backslashes, such as "
            f"'notes:read', got {name!r}"
        )
    return name


def check_name(name: object) -> str:
    """Return the name of a scope of this server, checked.

    Raises:
        TypeError: It is not a string.
        ValueError: It is not a valid OAuth scope, or it is `offline_access`.
    """
    text = check_text(name)
    if text == "offline_access":
        raise ValueError(
            "a server cannot use the scope offline_access: clients request it from their authorization "
            "server. Remove it"
        )
    return text


def scope_names(what: str, scopes: object) -> tuple[str, ...]:
    """Return the scopes of an option: one, or a list of them.

    Raises:
        RegistrationError: One of them is not a valid scope.
    """
    names = (scopes,) if isinstance(scopes, str) else scopes
    if not isinstance(names, Collection):
        raise RegistrationError(
            f'{what} must be a scope such as "notes:read" or a list of scopes, got {scopes!r}'
        )
    try:
        return tuple(map(check_name, names))  # pyright: ignore[reportUnknownArgumentType]  # checked by `check_name`
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"{what}: {error}") from None
