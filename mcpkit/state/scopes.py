"""What may be granted, and what that implies: the table of scopes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ..common.errors import RegistrationError
from .principal import Principal


class Scope:
    """What may be granted to whoever asks; it stands under its name in `Server(scopes={...})`.

    Args:
        description: What it allows, for people who are asked to grant it: `Read notes`.
        default: Whether clients ask for it at first, before anything has asked them for more.
        implies: The names of narrower scopes that whoever has this one has as well.

    Raises:
        TypeError: The description is no text, `default` is neither True nor False, or `implies` is no list of texts.
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
        """Show how it was made."""
        return f"Scope({self.description!r}, default={self.default}, implies={list(self.implies)})"


class Scopes:
    """The scopes of one server, by name.

    Args:
        table: The scopes as the author gives them; a text stands for a `Scope` with that description.

    Attributes:
        table: Each scope by its name, in the author's order.
        defaults: Those that clients ask for at first.

    Raises:
        TypeError: The table is no mapping of names to scopes.
        ValueError: A name is none that OAuth knows, is `offline_access`, or a scope implies one that there is not.
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
        self._implied = {name: self._all_from(name) for name in self.table}
        self._has_implied = any(len(implied) > 1 for implied in self._implied.values())

    def _all_from(self, name: str) -> frozenset[str]:
        found, waiting = {name}, [name]
        while waiting:
            new = [each for each in self.table[waiting.pop()].implies if each not in found]
            found.update(new)
            waiting += new
        return frozenset(found)

    def _unknown(self, name: str) -> str:
        from ..common.nearest import nearest

        guess = nearest(name, self.table)
        hint = f"did you mean {guess!r}?" if guess is not None else f"defined are {', '.join(self.table)}"
        return f"which is not defined in the server's scopes=; {hint}"

    def expanded(self, granted: Collection[str]) -> frozenset[str]:
        """Return what has been granted with all that it implies."""
        if not self._has_implied:
            return frozenset(granted)
        return frozenset(granted).union(*(self._implied.get(name, ()) for name in granted))

    def of(self, principal: Principal) -> Principal:
        """Return a principal with all that its scopes imply."""
        if not self._has_implied or not principal.scopes:
            return principal
        scopes = self.expanded(principal.scopes)
        return principal if scopes == principal.scopes else principal.granted(scopes)

    def reduced(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the fewest scopes that say the same: those of the table first, in its order, and none twice."""
        wanted = dict.fromkeys(names)
        known = [name for name in self.table if name in wanted]
        others = [name for name in wanted if name not in self.table]
        kept: list[str] = []
        for name in known:
            wider = (each for each in known if each != name and name in self._implied[each])
            # Of two that imply each other the first one stays.
            if not any(
                name not in self._implied or each in kept or each not in self._implied[name] for each in wider
            ):
                kept.append(name)
        return (*kept, *others)

    def check(self, what: str, names: Iterable[str]) -> None:
        """Refuse scopes that the server does not have; where it has no table, any will do.

        Args:
            what: Who names them, and what for: "tool 'add' needs".
            names: The scopes.

        Raises:
            RegistrationError: There is none of that name.
        """
        for name in names:
            if self.table and name not in self.table:
                raise RegistrationError(f"{what} {name!r}, {self._unknown(name)}")


def check_text(name: object) -> str:
    """Return a scope's name, of any server's.

    Raises:
        TypeError: It is no text.
        ValueError: It is none that OAuth knows.
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
    """Return a scope's name.

    Raises:
        TypeError: It is no text.
        ValueError: It is none that OAuth knows, or one that no server asks for.
    """
    text = check_text(name)
    if text == "offline_access":
        raise ValueError(
            "a server cannot use the scope offline_access: clients request it from their authorization "
            "server. Remove it"
        )
    return text


def scope_names(what: str, given: object) -> tuple[str, ...]:
    """Return scopes as an author gives them: one, or a list of them.

    Raises:
        RegistrationError: One of them is none.
    """
    if isinstance(given, str):
        names: tuple[object, ...] = (given,)
    elif isinstance(given, Collection):
        names = tuple(given)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # checked below
    else:
        raise RegistrationError(
            f'{what} must be a scope such as "notes:read" or a list of scopes, got {given!r}'
        )
    try:
        return tuple(map(check_name, names))
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"{what}: {error}") from None
