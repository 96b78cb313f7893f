"""Places that all clients of a server share, so that none of them can take all."""

from __future__ import annotations

from ..common.errors import BusyError

_ANONYMOUS = "clients without a token"


class Anonymous(str):
    """A client of a protected server that has not said who it is; together they have what one client may have."""

    __slots__ = ()


class Shares:
    """How many of a number of places are taken, and by whom.

    A client that can be told apart has at most as many as are free for others: one that is alone half of them, each of
    two a third. So whoever comes finds a place, and nobody has to say how many there are for each. Those who are
    anonymous are one client, and share its part in the same way.

    Attributes:
        taken: How many are taken.
    """

    __slots__ = ("_taken_by", "taken")

    def __init__(self) -> None:
        self.taken = 0
        self._taken_by: dict[str, int] = {}

    def has_room(self, limit: int, caller: str | None, amount: int = 1) -> bool:
        """Say whether a client may take so many more.

        Args:
            limit: How many there are.
            caller: The client; None for one that cannot be told apart, which may take all.
            amount: How many more.
        """
        free = limit - self.taken - amount
        return free >= 0 if caller is None else self._excessive(free, caller) is None

    def _excessive(self, free: int, caller: str) -> str | None:
        """Return who has more than there are for others: a client, or all who are anonymous."""
        own = self._taken_by.get(caller, 0)
        if isinstance(caller, Anonymous):
            together = self._taken_by.get(_ANONYMOUS, 0)
            if free < together:
                return _ANONYMOUS
            own, free = 2 * own, free - together  # as each place of one is one less for the others, twice
        return caller if free < own else None

    def check(self, limit: int, caller: str | None, what: str, *, retry_after: int = 1) -> None:
        """Refuse one more place to a client where there is none for it.

        Args:
            limit: How many there are.
            caller: The client.
            what: What has them, such as "requests are running".
            retry_after: Seconds after which it makes sense to try again.

        Raises:
            BusyError: There is none.
        """
        if not self.has_room(limit, caller):
            raise BusyError(
                f"Too many {what} {self.excess(limit, caller)}. Try again later", retry_after=retry_after
            )

    def excess(self, limit: int, caller: str | None, amount: int = 1) -> str:
        """Return what there is too much of, in parentheses: of all clients together, or of one alone."""
        if self.taken + amount > limit:
            return f"({limit})"
        who = None if caller is None else self._excessive(limit - self.taken - amount, caller)
        own = f"{self.taken_by(who)} from {who}"
        return f"({own}; one client has at most as many of {limit} as are left for others)"

    def taken_by(self, caller: str | None) -> int:
        """Return how many a client has; 0 for one that cannot be told apart."""
        return 0 if caller is None else self._taken_by.get(caller, 0)

    def may_yield(self, limit: int, caller: str | None, holder: str | None) -> bool:
        """Say whether a place may go from one client to another: to one that has its share, only its own.

        Args:
            limit: How many there are.
            caller: Who needs a place.
            holder: Who has one.
        """
        own = self.taken_by(caller)
        if isinstance(caller, Anonymous):
            if 4 * own >= limit:
                return holder == caller
            return 2 * self.taken_by(_ANONYMOUS) < limit or isinstance(holder, Anonymous)
        return 2 * own < limit or holder == caller

    def take(self, caller: str | None, amount: int = 1) -> None:
        """Take places, whether there are any or not."""
        self.taken += amount
        if caller is not None:
            self._taken_by[caller] = self._taken_by.get(caller, 0) + amount
            if isinstance(caller, Anonymous):
                self._taken_by[_ANONYMOUS] = self._taken_by.get(_ANONYMOUS, 0) + amount

    def give_back(self, caller: str | None, amount: int = 1) -> None:
        """Give back what `take` has taken for the same client."""
        self.taken -= amount
        if caller is not None:
            self._lessen(caller, amount)
            if isinstance(caller, Anonymous):
                self._lessen(_ANONYMOUS, amount)

    def _lessen(self, caller: str, amount: int) -> None:
        left = self._taken_by[caller] - amount
        if left:
            self._taken_by[caller] = left
        else:
            del self._taken_by[caller]
