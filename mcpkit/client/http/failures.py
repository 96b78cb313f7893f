"""Error messages for failed HTTP exchanges."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..._utils.exceptions import TransportError


def failure(
    error: Exception, origin: str, connect_timeout: float, by_proxy: Callable[[], str]
) -> TransportError:
    """Return the transport error for an exception of httpx2.

    Args:
        error: The exception.
        origin: The origin of the server.
        connect_timeout: The time limit of the connection in seconds.
        by_proxy: Returns the proxy in use, in words.
    """
    import httpx2

    text = str(error) or type(error).__name__
    if isinstance(error, httpx2.ConnectTimeout):
        message = f"{origin} did not accept the connection within {connect_timeout:g} s"
    elif isinstance(error, httpx2.PoolTimeout):
        message = "the http_client has no free connection. Allow more connections (limits=)"
    elif isinstance(error, httpx2.ProxyError):
        message = f"the proxy for {origin} rejected the connection: {text}"
    elif isinstance(error, httpx2.UnsupportedProtocol):  # such as a proxy that cannot be used
        message = f"cannot connect to {origin}: {text}"
        return TransportError(message, may_have_begun=False, may_pass=False)
    elif isinstance(error, (httpx2.ConnectError, httpx2.LocalProtocolError)):
        message = f"cannot connect to {origin}{by_proxy()}: {_reason(error) or text}"
        if "CERTIFICATE_VERIFY_FAILED" in text:
            message += ". Pass the certificate authorities of the server as verify="
        elif "WRONG_VERSION_NUMBER" in text:
            message += ". The server may only support http://"
    elif isinstance(error, httpx2.DecodingError):
        return TransportError(
            f"{origin} sent a response that cannot be decompressed: {text}", may_have_begun=True
        )
    else:
        message = f"the connection to {origin} was lost before the response was complete: {text}"
        return TransportError(message, may_have_begun=True)
    return TransportError(message, may_have_begun=False)


def _reason(error: BaseException | None) -> str | None:
    """Return the operating system's message in an exception or its causes, or None."""
    while error is not None:
        if isinstance(error, ConnectionError) and error.errno:
            return os.strerror(error.errno)
        error = error.__cause__ or error.__context__
    return None
