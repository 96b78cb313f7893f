"""Options of all providers."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypedDict

from ..._utils.option_checks import check_seconds, nearest
from ...identity.scopes import check_text
from ..claims import MAX_NAME
from ..client_secret import Authentication, ClientSecret, check_authentication
from ..fetching import DEFAULT_TIMEOUT
from ..jwt import LEEWAY
from ..libraries import check_installed
from ..texts import texts_in
from ..urls import check_url

if TYPE_CHECKING:
    import httpx2

_OURS: Final = frozenset(
    {
        "client_id",
        "client_secret",
        "code_challenge",
        "code_challenge_method",
        "nonce",
        "redirect_uri",
        "request",
        "request_uri",
        "response_mode",
        "response_type",
        "scope",
        "state",
    }
)
"""Parameters of an authorization request that `parameters=` must not set."""


class UpstreamOptions(TypedDict, total=False):
    """Keyword options of the class methods of `UpstreamProvider`."""

    name: str
    title: str
    scopes: Collection[str]
    parameters: Mapping[str, str]
    claims: Collection[str]
    authentication: Authentication
    timeout: float
    leeway: float
    http_client: httpx2.AsyncClient | None
    clock: Callable[[], float]


@dataclass(frozen=True)
class Settings:
    """Checked settings of a provider.

    Attributes:
        name: Name in code.
        title: Name on pages.
        issuer: Issuer of the user identities.
        client: Client credentials of this server.
        scopes: Scopes to request.
        is_usual: Whether the scopes are the default ones.
        parameters: Additional parameters of the authorization request.
        claims: Names of claims that are kept at any size.
        authentication: Client authentication method; None takes it from the metadata.
        timeout: Seconds in which each response must be received.
        leeway: Tolerance for clock differences, in seconds.
        http_client: Client to use; None makes one.
        clock: Returns the Unix time in seconds.
        is_public: Whether anyone can have an account there.
        revokes_all: Whether a revocation also ends the other logins of the same user with this client.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: An option is not valid. The message contains the fix.
        ImportError: The extra `auth` is not installed.
    """

    name: str
    title: str
    issuer: str
    client: ClientSecret
    scopes: tuple[str, ...]
    is_usual: bool
    parameters: Mapping[str, str]
    claims: frozenset[str]
    authentication: Authentication | None
    timeout: float
    leeway: float
    http_client: httpx2.AsyncClient | None
    clock: Callable[[], float]
    is_public: bool = False
    revokes_all: bool = False

    def __post_init__(self) -> None:
        check_installed()
        check_url(self.issuer, "the issuer")
        for option, text in (("name", self.name), ("title", self.title)):
            if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
                raise TypeError(f"{option} must be a string, got {text!r}")
            if not 0 < len(text) <= MAX_NAME:
                raise ValueError(f"{option} must have 1 to {MAX_NAME:,} characters, got {len(text):,}")
        for scope in self.scopes:
            check_text(scope)
        if not all(isinstance(each, str) for pair in self.parameters.items() for each in pair):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError("parameters must be a mapping of strings to strings")
        if said := _OURS.intersection(self.parameters):
            raise ValueError(f"parameters must not contain {min(said)}, which is set for each login")
        if self.authentication is not None:
            check_authentication(self.authentication)
        check_seconds("timeout", self.timeout)
        check_seconds("leeway", self.leeway, may_be_zero=True)


def settings_of(
    name: str,
    title: str,
    issuer: str,
    client: ClientSecret,
    usual: UpstreamOptions,
    options: UpstreamOptions,
    *,
    is_public: bool = False,
    revokes_all: bool = False,
) -> Settings:
    """Return the settings of a provider.

    Args:
        name: Default name in code.
        title: Default name on pages.
        issuer: Issuer of the user identities.
        client: Client credentials of this server.
        usual: Default options. `parameters` of the caller are merged with them.
        options: Options of the caller.
        is_public: Whether anyone can have an account there.
        revokes_all: Whether a revocation also ends the other logins of the same user with this client.

    Raises:
        TypeError: An option does not exist.
    """
    for option in options:
        if option not in UpstreamOptions.__annotations__:
            guess = nearest(option, UpstreamOptions.__annotations__)
            hint = (
                f"did you mean {guess}?"
                if guess
                else f"its options are {', '.join(UpstreamOptions.__annotations__)}"
            )
            raise TypeError(f"{title} has no option {option}=; {hint}")
    if not isinstance(options.get("parameters", {}), Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
        raise TypeError("parameters must be a mapping of strings to strings")
    said: UpstreamOptions = {**usual, **options}
    return Settings(
        said.get("name", name),
        said.get("title", title),
        issuer,
        client,
        texts_in("scopes", said.get("scopes", ())),
        "scopes" not in options,
        {**usual.get("parameters", {}), **options.get("parameters", {})},
        frozenset(texts_in("claims", said.get("claims", ()))),
        said.get("authentication"),
        said.get("timeout", DEFAULT_TIMEOUT),
        said.get("leeway", LEEWAY),
        said.get("http_client"),
        said.get("clock", time.time),
        is_public,
        revokes_all,
    )
