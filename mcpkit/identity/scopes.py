"""Scopes that a server defines, and the scopes that these imply."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from .._utils.exceptions import RegistrationError
from .principal import Principal


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
