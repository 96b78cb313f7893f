"""How a server is known over TLS, and the client by it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


def tls_context(
    verify: bool | str | Path | ssl.SSLContext,
    cert: str | Path | tuple[str | Path, ...] | None,
    *,
    trust_env: bool,
) -> ssl.SSLContext:
    """Return the context of connections; httpx2 itself wants no files any more.

    Args:
        verify: Whether certificates are checked; or a file or folder of authorities; or a context.
        cert: A file with the client's certificate and key; or two files, and the key's password as a third item.
        trust_env: Whether the environment names authorities.

    Raises:
        OSError: A file cannot be read, or is none of certificates.
    """
    import ssl

    import httpx2

    if isinstance(verify, ssl.SSLContext):
        context = verify
    elif isinstance(verify, bool):
        context = httpx2.create_ssl_context(verify=verify, trust_env=trust_env)
    else:
        place = str(verify)
        is_folder = Path(place).is_dir()
        context = ssl.create_default_context(
            cafile=None if is_folder else place, capath=place if is_folder else None
        )
    if cert is not None:
        context.load_cert_chain(*map(str, cert if isinstance(cert, tuple) else (cert,)))
    return context
