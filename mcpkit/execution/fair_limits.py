"""Fair shares of a limit among all clients of a server, so that no client can take all."""

from __future__ import annotations

from .._utils.errors import BusyError

_ANONYMOUS = "clients without a token"


class Anonymous(str):
    """Identifier of a client of a protected server without an access token; all of them share one client's part."""

    __slots__ = ()


class Shares:
    """Number of places in use, in total and by client.

    An identified client may use at most as many places as are free for others: a single client half of them, each of
    two clients a third. So a new client finds a place, without a limit for each client. All anonymous clients count as
    one client, and share its part in the same way.

    Attributes:
        taken: Number of places in use.
    """

    __slots__ = ("_taken_by", "taken")

    def __init__(self) -> None:
        self.taken = 0
        self._taken_by: dict[str, int] = {}

    def has_room(self, limit: int, caller: str | None, amount: int = 1) -> bool:
        """Return True if a client may use more places.

        Args:
            limit: Total number of places.
            caller: The client; None for an unidentified client, which may use all.
            amount: Number of additional places.
        """
        free = limit - self.taken - amount
        return free >= 0 if caller is None else self._excessive(free, caller) is None

    def _excessive(self, free: int, caller: str) -> str | None:
        """Return the client that exceeds its share, `_ANONYMOUS` for all anonymous clients together, or None."""
        own = self._taken_by.get(caller, 0)
        if isinstance(caller, Anonymous):
            together = self._taken_by.get(_ANONYMOUS, 0)
            if free < together:
                return _ANONYMOUS
            own, free = 2 * own, free - together  # as each place of one is one less for the others, twice
        return caller if free < own else None

    def check(
        self, limit: int, caller: str | None, requests_or_streams: str, *, retry_after: int = 1
    ) -> None:
        """Raise an error if a client may not use one more place.

        Args:
            limit: Total number of places.
            caller: The client.
            requests_or_streams: Use of the places, such as "requests are running", for the message.
            retry_after: Seconds after which the client should try again.

        Raises:
            BusyError: There is no place for the client.
        """
        if not self.has_room(limit, caller):
            raise BusyError(
                f"Too many {requests_or_streams} {self.excess(limit, caller)}. Try again in {retry_after} s",
                retry_after=retry_after,
            )

    def excess(self, limit: int, caller: str | None, amount: int = 1) -> str:
        """Return the exceeded number in parentheses, for messages: the limit, or the number of one client."""
        if self.taken + amount > limit:
            return f"({limit})"
        who = None if caller is None else self._excessive(limit - self.taken - amount, caller)
        own = f"{self.taken_by(who)} from {who}"
        return f"({own}; one client has at most as many of {limit} as are left for others)"

    def taken_by(self, caller: str | None) -> int:
        """Return the number of places that a client uses; 0 for an unidentified client."""
        return 0 if caller is None else self._taken_by.get(caller, 0)

    def may_yield(self, limit: int, caller: str | None, holder: str | None) -> bool:
        """Return True if a place may go from one client to another. A client with a full share may only reuse its own.

        Args:
            limit: Total number of places.
            caller: Client that needs a place.
            holder: Client that has the place.
        """
        own = self.taken_by(caller)
        if isinstance(caller, Anonymous):
            if 4 * own >= limit:
                return holder == caller
            return 2 * self.taken_by(_ANONYMOUS) < limit or isinstance(holder, Anonymous)
        return 2 * own < limit or holder == caller

    def take(self, caller: str | None, amount: int = 1) -> None:
        """Use places, even beyond the limit."""
        self.taken += amount
        if caller is not None:
            self._taken_by[caller] = self._taken_by.get(caller, 0) + amount
            if isinstance(caller, Anonymous):
                self._taken_by[_ANONYMOUS] = self._taken_by.get(_ANONYMOUS, 0) + amount

    def give_back(self, caller: str | None, amount: int = 1) -> None:
        """Release places that `take` has taken for the same client."""
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
