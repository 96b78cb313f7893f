"""httpx2 clients with TLS settings, proxies, and limits of idle connections."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

    import httpx2

_IDLE_CONNECTIONS = 20
"""The most idle connections. httpcore2 checks each of them twice for every request: with a hundred, a call takes twice
the CPU time, also in bursts, which open new ones for less."""
_IDLE_SECONDS = 4.0
"""Seconds after which an idle connection is closed. Many servers close theirs after five seconds: a request that is
sent at that moment is lost, and the client cannot know whether the server has read it."""


def new_client(
    verify: ssl.SSLContext | bool,
    proxy: str | None,
    *,
    trust_env: bool,
    mounts: Mapping[str, httpx2.AsyncBaseTransport] | None = None,
) -> httpx2.AsyncClient:
    """Return an httpx2 client, which has to be closed. Nothing is connected yet.

    Args:
        verify: The TLS context; False for servers without TLS.
        proxy: The URL of a proxy; None for that of the environment.
        trust_env: Whether environment variables may name proxies.
        mounts: Transports to use in place of the network, by URL prefix.
    """
    import httpx2

    from ..._utils import http_proxies as proxies

    limits = httpx2.Limits(
        max_connections=None,  # open streams must not make calls wait
        max_keepalive_connections=_IDLE_CONNECTIONS,
        keepalive_expiry=_IDLE_SECONDS,
    )
    return proxies.client(verify, proxy=proxy, trust_env=trust_env, limits=limits, mounts=mounts)


def tls_context(
    verify: bool | str | Path | ssl.SSLContext,
    cert: str | Path | tuple[str | Path, ...] | None,
    *,
    trust_env: bool,
) -> ssl.SSLContext:
    """Return the TLS context of connections, as httpx2 itself no longer accepts files.

    Args:
        verify: Whether certificates are verified; or a file or folder of certificate authorities; or a context.
        cert: A file with the client's certificate and key; or two files, and the key's password as a third item.
        trust_env: Whether environment variables may name certificate authorities.

    Raises:
        FileNotFoundError: There is no such file or folder.
        OSError: The file cannot be read.
        ValueError: The file has no certificate or key.
        TypeError: The value is not a path.
    """
    import ssl

    import httpx2

    if isinstance(verify, ssl.SSLContext):
        context = verify
    elif isinstance(verify, bool):
        context = httpx2.create_ssl_context(verify=verify, trust_env=trust_env)
    else:
        path = _existing_path("verify", verify)
        try:
            is_folder = Path(path).is_dir()
            context = ssl.create_default_context(
                cafile=None if is_folder else path, capath=path if is_folder else None
            )
        except ssl.SSLError as error:
            raise ValueError(f"verify={path!r} contains no certificates of authorities: {error}") from error
    if cert is not None:
        files, password = (cert[:2], cert[2:]) if isinstance(cert, tuple) else ((cert,), ())
        paths = [_existing_path("cert", each) for each in files]
        try:
            context.load_cert_chain(*paths, *map(str, password))
        except ssl.SSLError as error:
            raise ValueError(f"cert={paths} contains no certificate with its private key: {error}") from error
    return context


def _existing_path(option: str, path: object) -> str:
    """Return the path in an option, after checking that it exists."""
    if not isinstance(path, str | Path):
        raise TypeError(f"{option} must be a path, got {path!r}")
    if not Path(path).exists():
        raise FileNotFoundError(f"{option}={str(path)!r}: the file does not exist")
    return str(path)
