"""HTTP status and headers of error responses."""

from __future__ import annotations

from collections.abc import Mapping

from ..._utils.exceptions import (
    HEADER_MISMATCH,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
    BusyError,
    ChallengeError,
    MalformedError,
    MissingCapabilityError,
    ProtocolError,
)

_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    HEADER_MISMATCH: 400,
    MISSING_CLIENT_CAPABILITY: 400,
    UNSUPPORTED_PROTOCOL_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}


def status_of(problem: BaseException | None, statuses: Mapping[int, int] = _STATUS) -> int:
    """Return the HTTP status of a response.

    Args:
        problem: The error, if there was one.
        statuses: Statuses by error code, where they are not 200; by default those of the stateless era.
    """
    if isinstance(problem, BusyError | ChallengeError):
        return problem.status
    if isinstance(problem, MissingCapabilityError | MalformedError):
        return statuses.get(MISSING_CLIENT_CAPABILITY, 200)
    return statuses.get(problem.code, 200) if isinstance(problem, ProtocolError) else 200


def headers_of(problem: BaseException | None) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers of a response that an error requires."""
    if isinstance(problem, ChallengeError):
        return ((b"www-authenticate", problem.challenge.encode()),)
    return ((b"retry-after", b"%d" % problem.retry_after),) if isinstance(problem, BusyError) else ()
