"""Endpoint with access tokens: one URL, which is an audience (basic/authorization, "Access Token Usage")."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...._utils.exceptions import ChallengeError
from ....auth.verifier import AccessToken, InvalidTokenError, TokenVerifier
from ....identity.principals_and_scopes import ANYONE, Principal
from ....protocol.http_headers import caller_at
from ....protocol.revisions import HANDSHAKE
from ..exchange import RefusedError
from ..intake.refused_body import UnreadError
from ..statuses import headers_of
from .bearer import MalformedAuthorizationError, bearer_token, challenge
from .verification import REVOKED, Verification

if TYPE_CHECKING:
    from ....identity.audit import AuditLog
    from ....identity.principals_and_scopes import Scopes
    from ....identity.revocation import Revocation, Revocations

_MOST_KEPT = 10_000
"""Maximum cached tokens. Beyond it, the oldest are verified again."""

_ANYBODY = AccessToken(ANYONE)


class Endpoint:
    """Verifies the access tokens of requests to one URL, and challenges requests without one.

    Grants are cached by the hash of the token while they are fresh. The memory is bounded.

    Args:
        url: The URL, the required audience of tokens.
        document: URL of the resource metadata; None without authorization servers.
        verifier: The token verifier, which can refuse requests regardless of their token.
        verification: Verification of tokens.
        scopes: Scopes of the server.
        audit: The audit log.
        is_open: Returns True if requests without a token can be served at all.
        revocations: Revocations of principals; None if there are none.
        clock: Returns the Unix time in seconds.

    Attributes:
        url: The URL.
    """

    def __init__(
        self,
        url: str,
        document: str | None,
        verifier: TokenVerifier,
        verification: Verification,
        scopes: Scopes,
        audit: AuditLog,
        is_open: Callable[[], bool],
        revocations: Revocations | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.url = url
        self._document = document
        self._verifier = verifier
        self._verification = verification
        self._scopes = scopes
        self._audit = audit
        self._is_open = is_open
        self._revocations = revocations
        self._clock = clock
        self._is_picky = type(verifier).refusal is not TokenVerifier.refusal  # then it is asked each time
        self._grants: dict[
            bytes, tuple[float, AccessToken]
        ] = {}  # hash of the usual header: until when, what

    def known(self, headers: Mapping[bytes, bytes]) -> AccessToken | None:
        """Return the cached grant of the token of a request, if it is fresh."""
        header = headers.get(b"authorization")
        if header is None or self._is_picky:
            return None
        return self._kept(header)

    def _kept(self, header: bytes) -> AccessToken | None:
        kept = self._grants.get(hashlib.sha256(header).digest())
        if kept is None or kept[0] <= self._clock():
            return None
        self._audit.known_tokens += 1
        return kept[1]

    async def admit(
        self, headers: Mapping[bytes, bytes], peer: tuple[str, int] | None, *, may_be_anybody: bool = True
    ) -> AccessToken:
        """Verify the token of a request, and return its grant.

        Args:
            headers: Headers of the request, by lower-case name.
            peer: Address and port of the client; None if unknown.
            may_be_anybody: Allow a request without a token if the server has anonymous components.

        Raises:
            UnreadError: 401 without a valid token, 400 for a malformed header, 429 after too many invalid tokens, 503
                if the token cannot be verified now.
        """
        caller = None if peer is None else caller_at(peer[0])
        refusal = self._verifier.refusal(headers)
        if refusal is not None:
            self._tell(403, "invalid_request", refusal, caller)
            raise UnreadError(403, refusal)
        header = headers.get(b"authorization")
        try:
            token = None if header is None else bearer_token(header)
        except MalformedAuthorizationError:
            raise self.malformed("the Authorization header does not contain a Bearer token", caller) from None
        if header is None or token is None:
            if header is None and may_be_anybody and self._is_open():
                return _ANYBODY
            self._tell(401, "no_token", None, caller)
            raise self._unread(self._asking(self._scopes.defaults, "this server requires an access token"))
        header = b"Bearer " + token.encode()  # with more spaces, or in lower case, it is no other token
        if (kept := self._kept(header)) is not None:
            return kept
        try:
            grant = await self._verification.grant(token, self.url, caller)
        except InvalidTokenError as error:
            raise self._unread(
                self._asking(self._scopes.defaults, error.description, error="invalid_token")
            ) from None
        self._keep(header, grant)
        if self._is_revoked(grant):  # asked when it is kept: whoever is sent away after this is found there
            self._grants.pop(hashlib.sha256(header).digest(), None)
            raise self._unread(self.dismissal())
        return grant

    def check(self, grant: AccessToken) -> None:
        """Check that the token of an accepted request has not been revoked meanwhile.

        Raises:
            RefusedError: The token was revoked (401).
        """
        if self._is_revoked(grant):
            error = self.dismissal()
            raise RefusedError(error.status, error.message, headers_of(error))

    def _is_revoked(self, grant: AccessToken) -> bool:
        return self._revocations is not None and self._revocations.covers_cached(
            grant.principal, grant.issued
        )

    def revoke(self, revocation: Revocation) -> None:
        """Remove the cached tokens of a revoked principal; in any thread."""
        for digest, (_, grant) in tuple(self._grants.items()):
            if revocation.covers(grant.principal, grant.issued):
                self._grants.pop(digest, None)

    def _keep(self, header: bytes, grant: AccessToken) -> None:
        until = min(
            float("inf") if grant.expires is None else grant.expires,
            float("inf") if grant.fresh_until is None else grant.fresh_until,
        )
        while len(self._grants) >= _MOST_KEPT:
            del self._grants[next(iter(self._grants))]
        self._grants[hashlib.sha256(header).digest()] = until, grant

    # What is said to clients

    def challenge(self, scopes: Sequence[str], principal: Principal, revision: str) -> ChallengeError:
        """Return the challenge for missing scopes (403) or a missing token (401).

        Args:
            scopes: All scopes that the request needs.
            principal: Principal of the request.
            revision: Protocol revision of the request. Before 2026-07-28, clients do not add the granted scopes to the
                requested ones, so the challenge contains both.
        """
        if principal.id is None:
            self._tell(401, "no_token", None, scopes=scopes)
            return self._asking(scopes or self._scopes.defaults, "this request requires an access token")
        self._tell(403, "insufficient_scope", None, principal=principal, scopes=scopes)
        named = scopes
        if revision in HANDSHAKE:
            named = self._scopes.reduced((*(set(self._scopes.table) & principal.scopes), *scopes))
        message = f"this request requires scopes that the access token does not have: {', '.join(scopes)}"
        return self._asking(named, message, status=403, error="insufficient_scope")

    def dismissal(self) -> ChallengeError:
        """Return the challenge for a revoked token."""
        return self._asking(self._scopes.defaults, REVOKED, error="invalid_token")

    def malformed(self, description: str, caller: str | None = None) -> UnreadError:
        """Return the error for a request with a malformed Authorization header."""
        self._tell(400, "invalid_request", description, caller)
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

    def _tell(
        self,
        status: int,
        reason: str,
        detail: str | None,
        caller: str | None = None,
        *,
        principal: Principal | None = None,
        scopes: Sequence[str] = (),
    ) -> None:
        self._audit.emit(
            "refusal",
            principal,
            status=status,
            reason=reason,
            detail=detail,
            scopes=scopes,
            resource=self.url,
            caller=caller,
        )

    @staticmethod
    def _unread(error: ChallengeError) -> UnreadError:
        return UnreadError(error.status, error.message, headers_of(error))
