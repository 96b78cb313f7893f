"""Login at a provider, after consent on a page of this server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from html import escape

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..._utils.concurrency import run_shielded
from ...identity.principal import Principal, user
from ..authority.asked import Asked
from ..authority.consent import Consent
from ..authority.errors import NOT_KEPT, OAuthError
from ..authority.grants import GrantRecord
from ..authority.login import Ending, Login
from ..authority.parameters import of_query
from ..upstream.errors import UpstreamRefusedError, UpstreamUnavailableError
from ..upstream.tokens import Identity, UpstreamTokens
from ..upstream.upstream import UpstreamProvider
from .admission import Admission
from .logins import LoginEndedError, Logins
from .remembered import FIELD, Remembered
from .transactions import Transaction, Transactions

logger = logging.getLogger(__name__)

_ANSWER = 30.0
"""Seconds in which the provider must respond, regardless of the timeout of its client."""
_REFUSALS = frozenset({"access_denied", "temporarily_unavailable"})
"""Errors of the provider that a client gets unchanged; all others become `server_error`."""

_KEEP = (
    f'<label class="check"><input type="checkbox" name="{FIELD}" value="yes"> '
    "Do not ask me again in this browser for 30 days</label>"
)


class ProxyLogin(Login):
    """Obtains consent, and redirects users to the provider and back.

    Errors after the consent are sent to the redirect URI of the client with its `state`, because the URI is checked and
    the user has allowed the client.

    Args:
        upstream: The provider.
        consent: The consent page.
        transactions: Logins in progress.
        logins: Completed logins.
        admission: Decides whether a user may log in.
        callback: Redirect URI for the provider.
        remembered: Remembered consents; None shows the page each time.
    """

    def __init__(
        self,
        upstream: UpstreamProvider,
        consent: Consent,
        transactions: Transactions,
        logins: Logins,
        admission: Admission,
        callback: str,
        remembered: Remembered | None = None,
    ) -> None:
        self._upstream = upstream
        self._consent = consent
        self._transactions = transactions
        self._logins = logins
        self._admission = admission
        self._callback = callback
        self._remembered = remembered

    async def ask(self, ending: Ending, asked: Asked, request: Request) -> Response:
        """Return the consent page, or a redirect to the provider if the consent is remembered."""
        remembered, title = self._remembered, self._upstream.title
        if remembered is not None and (whose := remembered.covers(asked, request)) is not None:
            self._consent.tell(asked, "remembered")
            return await self._forward(ending, asked, request, whose)
        may_be_kept = remembered is not None and remembered.may_be(asked)
        more = f"<p>Next, you will log in with <b>{escape(title)}</b>.</p>{_KEEP if may_be_kept else ''}"
        return self._consent.page(asked, self._consent.choice(asked, "Allow it", more), request)

    async def answer(self, ending: Ending, request: Request) -> Response:
        """Process the consent form: redirect to the provider, or deny.

        Raises:
            OAuthError: The form is not valid.
        """
        asked, form = await self._consent.answered(request)
        is_kept = False
        if form.require("answer") != "allow":
            response = ending.refused(asked, "access_denied", "the user denied the request")
        else:
            is_kept = form.get(FIELD) is not None
            response = await self._forward(ending, asked, request, is_kept=is_kept)
        if self._remembered is not None and not is_kept:
            self._remembered.forget(asked.client_id, request, response)
        return response

    async def come_back(self, ending: Ending, request: Request) -> Response:
        """Process the callback of the provider.

        A callback is redeemed once. A repeated one is refused in every process.

        Raises:
            OAuthError: This browser has not started the login, or it was already completed. There is no client to
                notify.
            OSError: The storage does not respond. The user can retry.
        """
        parameters = of_query(request)
        parameters.check()
        transaction = self._transactions.find(request, parameters.require("state"))
        await ending.claim(transaction.asked)
        # What the provider has given out by now is kept, or given back, also where nobody waits any more.
        response = await run_shielded(self._ended(ending, transaction, parameters.single(), request))
        self._transactions.forget(transaction, request, response)
        return response

    async def may_go_on(self, record: GrantRecord) -> bool | Collection[str]:
        """Check at a refresh whether a user may have new tokens, by the provider and `allow=`.

        Raises:
            OAuthError: The check is not possible now.
        """
        try:
            record = await self._logins.checked(record)
        except LoginEndedError:
            return False
        except UpstreamUnavailableError as error:
            raise _later(str(error)) from None
        try:
            return await self._admission.of(self._principal(record, record.scopes))
        except Exception:
            logger.exception(
                "allow= raised an exception, so a token refresh was answered with 503. Correct the function"
            )
            raise _later("the server could not check the access of the user; try again later") from None

    async def _forward(
        self,
        ending: Ending,
        asked: Asked,
        request: Request,
        whose: str | None = None,
        *,
        is_kept: bool = False,
    ) -> Response:
        """Redirect a user to the provider after the consent."""
        transaction = self._transactions.begin(asked, whose, is_kept=is_kept)
        try:
            url = await asyncio.wait_for(
                self._upstream.provider.authorization_url(
                    redirect_uri=self._callback,
                    state=transaction.id,
                    challenge=transaction.challenge,
                    nonce=transaction.nonce,
                ),
                _ANSWER,
            )
            response = RedirectResponse(url, 303, headers={**NOT_KEPT, "Referrer-Policy": "no-referrer"})
            self._transactions.keep(transaction, request, response)
        except (UpstreamUnavailableError, asyncio.TimeoutError) as error:
            return self._failed(ending, asked, error)
        except OAuthError as error:
            return ending.refused(asked, error.error, error.description)
        return response

    async def _ended(
        self, ending: Ending, transaction: Transaction, answer: dict[str, str], request: Request
    ) -> Response:
        """Redirect a user to the client, with a code if the provider and `allow=` admit the user."""
        asked = transaction.asked
        try:
            identity, tokens = await asyncio.wait_for(
                self._upstream.provider.redeem(
                    answer,
                    redirect_uri=self._callback,
                    verifier=transaction.verifier,
                    nonce=transaction.nonce,
                ),
                _ANSWER,
            )
        except UpstreamRefusedError as error:
            logger.warning("%s refused a login: %r", self._upstream.title, str(error))
            ending.failed(request, "the identity provider refused the login")
            code = error.error if error.error in _REFUSALS else "server_error"
            return ending.refused(asked, code, "the identity provider refused the login")
        except (UpstreamUnavailableError, asyncio.TimeoutError) as error:
            return self._failed(ending, asked, error)
        return await self._let_in(ending, transaction, identity, tokens, request)

    async def _let_in(
        self,
        ending: Ending,
        transaction: Transaction,
        identity: Identity,
        tokens: UpstreamTokens,
        request: Request,
    ) -> Response:
        asked, remembered = transaction.asked, self._remembered
        held = self._logins.holding(tokens).written()
        record = GrantRecord(
            "", asked.client_id, identity.subject, (), (), claims=dict(identity.claims), held=held
        )
        if transaction.whose is not None and not await self._holds(transaction.whose, identity.subject):
            await self._logins.let_go(record)
            said = "the remembered consent is not valid for this user; try again"
            response = ending.refused(asked, "access_denied", said)
            if remembered is not None:
                remembered.forget(asked.client_id, request, response)
            return response
        try:
            scopes = await self._admission.of(self._principal(record, asked.scopes))
        except Exception:
            logger.exception("allow= raised an exception, so the login was refused. Correct the function")
            await self._logins.let_go(record)
            return ending.refused(asked, "server_error", "the server could not check the access of the user")
        if scopes is False:
            await self._logins.let_go(record)
            whose = self._principal(record, asked.scopes)
            ending.failed(request, "allow= denied access to the user", principal=whose)
            return ending.refused(asked, "access_denied", "the user has no access to this server")
        try:
            at_most = None if scopes is True else scopes
            response = await ending.allowed(asked, identity.subject, at_most, identity.claims, held)
        except OSError:
            logger.exception(
                "the shared store failed, so a login could not be stored and was refused. The user "
                "can log in again"
            )
            return ending.refused(asked, "temporarily_unavailable", "the server cannot store the login now")
        if remembered is not None and transaction.is_kept:
            remembered.remember(asked, identity.subject, request, response)
        return response

    async def _holds(self, whose: str, subject: str) -> bool:
        """Return True if a remembered consent is valid for this user."""
        try:
            return self._remembered is not None and await self._remembered.holds(whose, subject)
        except OSError:
            logger.exception(
                "the shared store failed, so a remembered consent could not be read and a login was "
                "refused. The user can log in again"
            )
            return False

    def _failed(self, ending: Ending, asked: Asked, error: Exception) -> Response:
        said = str(error) or "it did not respond in time"
        logger.warning("%s: a login failed: %r", self._upstream.title, said)
        return ending.refused(
            asked,
            "temporarily_unavailable",
            "the identity provider is not available now; the cause is in the log of the server",
        )

    def _principal(self, record: GrantRecord, scopes: Collection[str]) -> Principal:
        return user(
            self._upstream.issuer,
            record.subject or "",
            scopes,
            client_id=record.client_id,
            claims=record.claims,
        )


def _later(description: str) -> OAuthError:
    return OAuthError("temporarily_unavailable", description, status=503, headers={"Retry-After": "5"})
