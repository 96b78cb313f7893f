"""One URL that takes access tokens: an audience of its own (basic/authorization, "Access Token Usage")."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ....auth.verifier import Grant, InvalidTokenError, TokenVerifier, VerifierUnavailableError
from ....errors import ChallengeError
from ....protocol.revisions import HANDSHAKE
from ....state.principal import ANYONE, Principal
from ..intake.refused_body import UnreadError
from ..statuses import headers_of
from .bearer import MalformedAuthorizationError, bearer_token, challenge

if TYPE_CHECKING:
    from ....state.scopes import Scopes

logger = logging.getLogger("mcpkit")

_MOST_KEPT = 10_000
"""Tokens that are remembered; of more, the oldest are verified again."""

_ANYBODY = Grant(ANYONE)


class Endpoint:
    """What takes the access tokens of requests to one URL, and asks for those that are missing.

    What a token grants is kept under its hash as long as that is fresh. Memory is bounded.

    Args:
        url: The URL, which tokens must have as their audience.
        document: Where the metadata of the resource are; None where there is nobody to log in at.
        verifier: Verifies the tokens.
        scopes: What may be granted.
        is_open: Says whether a request without a token may be served at all.
        clock: The time, in Unix seconds.

    Attributes:
        url: As given.
    """

    def __init__(
        self,
        url: str,
        document: str | None,
        verifier: TokenVerifier,
        scopes: Scopes,
        is_open: Callable[[], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.url = url
        self._document = document
        self._verifier = verifier
        self._scopes = scopes
        self._is_open = is_open
        self._clock = clock
        self._is_picky = type(verifier).refusal is not TokenVerifier.refusal  # then it is asked each time
        self._grants: dict[bytes, tuple[float, Grant]] = {}  # hash of the header: until when, what

    def known(self, headers: Mapping[bytes, bytes]) -> Grant | None:
        """Return what the token of a request grants, where that is known and fresh."""
        header = headers.get(b"authorization")
        if header is None or self._is_picky:
            return None
        return self._kept(header)

    def _kept(self, header: bytes) -> Grant | None:
        kept = self._grants.get(hashlib.sha256(header).digest())
        return None if kept is None or kept[0] <= self._clock() else kept[1]

    async def admit(self, headers: Mapping[bytes, bytes], *, may_be_anybody: bool = True) -> Grant:
        """Return what the token of a request grants.

        Args:
            headers: The headers of the request by name in lower case.
            may_be_anybody: Whether who has no token may be served where anything is open to anybody.

        Raises:
            UnreadError: 401 without a good token, 400 for what is no token, 503 while nobody can tell.
        """
        refusal = self._verifier.refusal(headers)
        if refusal is not None:
            raise UnreadError(403, refusal)
        header = headers.get(b"authorization")
        try:
            token = None if header is None else bearer_token(header)
        except MalformedAuthorizationError:
            raise self.malformed("the Authorization header is no Bearer token") from None
        if header is None or token is None:
            if header is None and may_be_anybody and self._is_open():
                return _ANYBODY
            raise self._unread(self._asking(self._scopes.defaults, "this server takes an access token"))
        if (kept := self._kept(header)) is not None:
            return kept
        try:
            grant = await self._verifier.verify(token, self.url)
        except InvalidTokenError as error:
            raise self._unread(
                self._asking(self._scopes.defaults, error.description, error="invalid_token")
            ) from None
        except VerifierUnavailableError as error:
            logger.warning("an access token cannot be verified: %s", error.description)
            raise UnreadError(
                503,
                "access tokens cannot be verified now; try again later",
                ((b"retry-after", b"%d" % error.retry_after),),
            ) from None
        except Exception:
            logger.exception("an access token cannot be verified")
            raise UnreadError(500, "the server cannot tell who sends this request") from None
        principal = self._scopes.of(grant.principal)
        grant = Grant(principal, grant.expires, grant.issued, grant.fresh_until)
        self._keep(header, grant)
        return grant

    def _keep(self, header: bytes, grant: Grant) -> None:
        until = min(
            float("inf") if grant.expires is None else grant.expires,
            float("inf") if grant.fresh_until is None else grant.fresh_until,
        )
        while len(self._grants) >= _MOST_KEPT:
            del self._grants[next(iter(self._grants))]
        self._grants[hashlib.sha256(header).digest()] = until, grant

    # What is said to clients

    def challenge(self, scopes: Sequence[str], principal: Principal, revision: str) -> ChallengeError:
        """Return how somebody is told to come back with scopes (403), or to say who they are (401).

        Args:
            scopes: All that the request needs.
            principal: Who asks.
            revision: The one that it is served in: before 2026-07-28 clients do not join what they have to what
                they are asked for, so that is named as well.
        """
        if principal.id is None:
            return self._asking(scopes or self._scopes.defaults, "this takes an access token")
        named = scopes
        if revision in HANDSHAKE:
            named = self._scopes.reduced((*(set(self._scopes.table) & principal.scopes), *scopes))
        message = f"this needs more than has been granted: {', '.join(scopes)}"
        return self._asking(named, message, status=403, error="insufficient_scope")

    def malformed(self, description: str) -> UnreadError:
        """Return what refuses a request whose Authorization header cannot be read."""
        said = challenge({"error": "invalid_request", "error_description": description})
        return UnreadError(400, description, ((b"www-authenticate", said.encode()),))

    def _asking(
        self, scopes: Sequence[str], message: str, *, status: int = 401, error: str | None = None
    ) -> ChallengeError:
        said = challenge(
            {
                "error": error,
                "error_description": None if error is None else message,
                "resource_metadata": self._document,
                "scope": " ".join(scopes) or None,
            }
        )
        return ChallengeError(401 if status == 401 else 403, said, message)

    @staticmethod
    def _unread(error: ChallengeError) -> UnreadError:
        return UnreadError(error.status, error.message, headers_of(error))
