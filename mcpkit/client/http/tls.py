"""TLS settings: verification of the server and certificate of the client."""

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
    """Return the TLS context of connections. httpx2 itself no longer accepts files.

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
        place = _existing("verify", verify)
        try:
            is_folder = Path(place).is_dir()
            context = ssl.create_default_context(
                cafile=None if is_folder else place, capath=place if is_folder else None
            )
        except ssl.SSLError as error:
            raise ValueError(f"verify={place!r} contains no certificates of authorities: {error}") from error
    if cert is not None:
        files, password = (cert[:2], cert[2:]) if isinstance(cert, tuple) else ((cert,), ())
        paths = [_existing("cert", each) for each in files]
        try:
            context.load_cert_chain(*paths, *map(str, password))
        except ssl.SSLError as error:
            raise ValueError(f"cert={paths} contains no certificate with its private key: {error}") from error
    return context


def _existing(option: str, path: object) -> str:
    """Return the path in an option, after checking that it exists."""
    if not isinstance(path, str | Path):
        raise TypeError(f"{option} must be a path, got {path!r}")
    if not Path(path).exists():
        raise FileNotFoundError(f"{option}={str(path)!r}: the file does not exist")
    return str(path)
