"""Exceptions of servers and clients, and the JSON-RPC error codes.

The wire form of each is in docs/reference/errors.md. The codes follow "Error Codes" of the base
protocol page of the specification (revision 2026-07-28). The public classes are exported by `mcpkit.exceptions`, and
have that module as theirs: logs and pickles contain it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
# Handshake era only; the stateless era answers INVALID_PARAMS.
RESOURCE_NOT_FOUND = -32002
HEADER_MISMATCH = -32020
MISSING_CLIENT_CAPABILITY = -32021
UNSUPPORTED_PROTOCOL_VERSION = -32022


def exception_text(error: BaseException) -> str | None:
    """Return the text of an exception; None if its `__str__` raises."""
    try:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - whatever it is, it is no answer of the function that has raised the error
        return None


def reduce_exception(self: BaseException) -> tuple[Any, ...]:
    """Return the pickled form of an exception, as `__reduce__`. `__init__` has other parameters than `args`."""
    return restored_exception, (type(self), self.args, vars(self))


def restored_exception(
    cls: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]
) -> BaseException:
    """Return an exception without a call of its `__init__`."""
    error = cls.__new__(cls, *args)
    error.args = args
    vars(error).update(state)
    return error


# Registration


class RegistrationError(Exception):
    """A component cannot be registered. The message contains the correction of its definition."""


class UnresolvedHint(RegistrationError):  # noqa: N818 - names a state that a later try may find gone
    """A type hint contains a name that is not defined yet; it is resolved again on first use."""


# JSON-RPC errors


class ProtocolError(Exception):
    """A JSON-RPC error, sent unchanged.

    Args:
        code: The JSON-RPC error code: a standard code, or a number outside the reserved range -32768 to -32000.
        message: One sentence that the client may show.
        data: Any JSON value with details, or None to leave it out.

    Raises:
        TypeError: The code is not an int, or the message not a string.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        values: tuple[Any, Any] = (code, message)
        if not (isinstance(values[0], int) and isinstance(values[1], str)):
            raise TypeError(
                f"ProtocolError takes a code (int) and a message (str), got {code!r} and {message!r}"
            )
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    __reduce__ = reduce_exception


class MalformedError(ProtocolError):
    """A request violates the specification (-32602).

    Args:
        message: What is wrong, and what was expected.
    """

    def __init__(self, message: str) -> None:
        super().__init__(INVALID_PARAMS, message)


class TooLongError(ProtocolError):
    """A message exceeds the size limit, and is not read (-32600).

    Args:
        message: Text with the limit.
        beginning: First bytes of the message, which may contain its id.
        ending: Last bytes that were received.
    """

    def __init__(self, message: str, beginning: bytes = b"", ending: bytes = b"") -> None:
        super().__init__(INVALID_REQUEST, message)
        self.beginning = beginning
        self.ending = ending


class BusyError(ProtocolError):
    """A limit is reached, or the server is shutting down (-32603). The same request may succeed later.

    Args:
        message: The limit that was reached.
        retry_after: Seconds after which the client should try again.
    """

    status: ClassVar = 503

    def __init__(self, message: str, *, retry_after: int = 1) -> None:
        super().__init__(INTERNAL_ERROR, message)
        self.retry_after = retry_after


class ChallengeError(ProtocolError):
    """The client must authenticate (401), or needs more scopes (403), before the server serves the request.

    Over HTTP, the response has this status and the challenge in the header `WWW-Authenticate`. If an event stream has
    begun, or the transport is not HTTP, the client gets the JSON-RPC error only (-32600). Components, middleware and
    `principal=` may raise it (basic/authorization, "Scope Challenge Handling").

    Args:
        status: 401 or 403.
        challenge: Value of the header: `Bearer resource_metadata="https://..."`. Put all scopes that the operation
            needs in one challenge: `Bearer error="insufficient_scope", scope="read write"`.
        message: One sentence that the client may show; None for the challenge.

    Raises:
        TypeError: The challenge or the message is not a string.
        ValueError: The status is another one, or the challenge is not a valid header value: visible ASCII and spaces.
    """

    def __init__(self, status: Literal[401, 403], challenge: str, message: str | None = None) -> None:
        super().__init__(INVALID_REQUEST, challenge if message is None else message)
        if status not in (401, 403):
            raise ValueError(f"the status of a ChallengeError must be 401 or 403, got {status!r}")
        if not (challenge.isascii() and challenge.isprintable() and challenge.strip() == challenge != ""):
            raise ValueError(
                f"the challenge of a ChallengeError must be visible ASCII, as a header value, got {challenge!r}"
            )
        self.status = status
        self.challenge = challenge


# Errors of handlers


class HandlerError(Exception):
    """Base class of errors with a text for the client."""

    __reduce__ = reduce_exception


class ToolError(HandlerError):
    """A tool failed. The model reads the text (`isError: true`)."""


class ResourceError(HandlerError):
    """A resource could not be read; the text is the message of the JSON-RPC error (-32603)."""


class ResourceNotFoundError(ResourceError):
    """The resource does not exist (-32602; -32002 up to revision 2025-11-25).

    Args:
        uri: URI of the resource; None for the requested one.
    """

    def __init__(self, uri: str | None = None) -> None:
        super().__init__("Resource not found" if uri is None else f"Resource not found: {uri}")
        self.uri = uri


class PromptError(HandlerError):
    """A prompt could not be rendered; the text is the message of the JSON-RPC error (-32603)."""


class CallTimeoutError(HandlerError):
    """A call exceeded its timeout (in a tool `isError: true`, elsewhere -32603).

    Args:
        seconds: The timeout in seconds.
        has_begun: Whether the function was running. False if it was still waiting for earlier calls to end.
    """

    def __init__(self, seconds: float, *, has_begun: bool = True) -> None:
        text = f"timed out after {seconds:g} s"
        super().__init__(text if has_begun else f"{text} while it waited for earlier calls")
        self.seconds = seconds
        self.has_begun = has_begun


class ProcessEndedError(HandlerError):
    """The worker process of a function ended without a result (in a tool `isError: true`, elsewhere -32603).

    Args:
        reason: Known cause, such as the signal or the exit code.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"The worker process exited without a result ({reason})")
        self.reason = reason


class MissingCapabilityError(HandlerError):
    """The client does not declare a capability that the request needs.

    Stateless era: -32021 with `data.requiredCapabilities`. Handshake era: in a tool a result with `isError: true`,
    elsewhere -32602; the text names the capability.

    Args:
        names: The missing capabilities, such as `sampling` or `elicitation.url`.
        required: The same in the form of the client's declaration, such as `{"elicitation": {"url": {}}}`.
    """

    def __init__(self, names: Sequence[str], required: dict[str, Any]) -> None:
        what = "capability" if len(names) == 1 else "capabilities"
        super().__init__(f"The client does not declare the required {what} {', '.join(names)}")
        self.names = tuple(names)
        self.required = required


class InsufficientScopeError(HandlerError):
    """The client lacks scopes, and no HTTP status can report it: the transport is not HTTP, or the response has begun.

    In a tool `isError: true` with `_meta["mcp/www_authenticate"]`, elsewhere -32600 with the same in `data`.

    Args:
        scopes: The scopes that the request needs.
        challenge: The challenge, as in the header `WWW-Authenticate`.
    """

    def __init__(self, scopes: Sequence[str], challenge: str) -> None:
        super().__init__(f"This request needs scopes that were not granted: {', '.join(scopes)}")
        self.scopes = tuple(scopes)
        self.challenge = challenge

    @property
    def members(self) -> dict[str, list[str]]:
        """Members of `_meta` or `data` with the challenge."""
        return {"mcp/www_authenticate": [self.challenge]}


class LoginNeededError(HandlerError):
    """The user has no valid token for a provider, and must log in there first or again.

    Args:
        provider: Name of the provider, as in `ctx.upstream_token`.
        title: Title of the provider for the text; None for the name.
        has_ended: Whether an earlier login has ended.
    """

    def __init__(self, provider: str, title: str | None = None, *, has_ended: bool = False) -> None:
        what = f"the login with {title or provider} has ended. Log in again"
        super().__init__(
            what if has_ended else f"this request needs a login with {title or provider}. Log in there first"
        )
        self.provider = provider
        self.has_ended = has_ended


class ProviderUnavailableError(HandlerError):
    """The provider does not issue a new token at the moment. The same call may succeed later.

    Args:
        provider: Name of the provider, as in `ctx.upstream_token`.
    """

    def __init__(self, provider: str) -> None:
        super().__init__(f"{provider} does not respond. Try again later")
        self.provider = provider


class ElicitationError(HandlerError):
    """The user declined or cancelled an elicitation that the handler needs.

    Args:
        action: `decline` or `cancel`.
    """

    def __init__(self, action: str) -> None:
        super().__init__("The user declined" if action == "decline" else "The user cancelled")
        self.action = action


class ClientResponseError(HandlerError):
    """The client did not respond to a request of the server, or its response is an error or invalid.

    Args:
        text: The text of the exception.
        code: JSON-RPC error code of the client's response; None if it is not an error response.
        reason: Message of the client's error response; None if there is none.
    """

    def __init__(self, text: str, code: int | None = None, reason: str | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.reason = reason


class InvalidAnswerError(ClientResponseError):
    """The client's response to a request of the server is invalid.

    Args:
        problem: What was expected.
        is_form: Whether it concerns the fields of a form, which the server may send again.
    """

    def __init__(self, problem: str, *, is_form: bool = False) -> None:
        super().__init__(f"The client's response is invalid: {problem}")
        self.problem = problem
        self.is_form = is_form


class InputRequired(BaseException):
    """Ends a round of a stateless request until the client has responded to a server request. Do not catch it."""

    def __str__(self) -> str:
        """Return a hint for code that caught it by mistake."""
        return (
            "the client has to answer first, then the handler runs again. Do not catch this exception, "
            "and await the request within the handler"
        )


class Problem(NamedTuple):
    """A problem with an argument.

    Args:
        field: Path of the value: the argument's name, with `.key` and `[index]` for nested values. Empty for the
            arguments as a whole.
        message: What was expected and what was received, for example `expected a number from -90 to 90, got "north"`.
    """

    field: str
    message: str

    def __str__(self) -> str:
        """Return the line that a model reads."""
        return f"{self.field}: {self.message}" if self.field else self.message


class ArgumentsError(HandlerError):
    """Arguments do not match the schema of a tool, a prompt or a resource template.

    The text has one line for each problem, at most `MAX_PROBLEMS`.

    Attributes:
        MAX_PROBLEMS: Maximum number of problems in the text.
        problems: All problems.
    """

    MAX_PROBLEMS = 10

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems[: self.MAX_PROBLEMS]]
        if len(self.problems) > self.MAX_PROBLEMS:
            lines.append(f"and {len(self.problems) - self.MAX_PROBLEMS} more")
        super().__init__("\n".join(lines))


class CallEndedError(RuntimeError):
    """A function uses the Context of a call that has ended.

    Args:
        method: The method of the call.
    """

    def __init__(self, method: str) -> None:
        super().__init__(method)
        self.method = method

    __reduce__ = reduce_exception

    def __str__(self) -> str:
        """Return the text with the method."""
        return f"this Context belongs to a {self.method} request that has ended; use it only while its handler runs"


class OutputError(Exception):
    """The return value of a function cannot be sent: it has no JSON form, or does not match the output schema.

    It is a fault of the server. The client gets the error nevertheless, because the function has run (in a tool
    `isError: true`, elsewhere -32603).

    Args:
        text: Place in the result, its type, and what to return instead; never the value.
    """


# Errors of clients


class TransportError(ConnectionError):
    """A message did not reach the server, or its response was lost.

    Args:
        message: The failure, and what to do about it.
        may_have_begun: Whether the server may have begun to process the message.
        retry_after: Seconds after which the server accepts requests again (`Retry-After`); None if it sent none.
        session_is_gone: Whether the session no longer exists, so that the client has to open another one.
        may_pass: Whether another attempt may succeed.
    """

    def __init__(
        self,
        message: str,
        *,
        may_have_begun: bool,
        retry_after: float | None = None,
        session_is_gone: bool = False,
        may_pass: bool = True,
    ) -> None:
        super().__init__(message)
        self.may_pass = may_pass
        self.may_have_begun = may_have_begun
        self.retry_after = retry_after
        self.session_is_gone = session_is_gone

    __reduce__ = reduce_exception


class StatusError(TransportError):
    """An HTTP server responded with an error status and without a JSON-RPC message.

    Args:
        message: The failure.
        status: The HTTP status.
        may_have_begun: As in `TransportError`.
        retry_after: As in `TransportError`.
        session_is_gone: As in `TransportError`.
    """

    def __init__(
        self,
        message: str,
        status: int,
        *,
        may_have_begun: bool,
        retry_after: float | None = None,
        session_is_gone: bool = False,
    ) -> None:
        super().__init__(
            message,
            may_have_begun=may_have_begun,
            retry_after=retry_after,
            session_is_gone=session_is_gone,
            may_pass=session_is_gone or status == 429 or status >= 500,
        )
        self.status = status


class AuthorizationError(StatusError):
    """The server requires authentication (401) or more scopes (403).

    Args:
        message: The reason, and what to do about it.
        status: 401 or 403.
        challenge: The value of `WWW-Authenticate`; empty if the server sent none.
    """

    def __init__(self, message: str, status: int, challenge: str) -> None:
        super().__init__(message, status, may_have_begun=False)
        self.challenge = challenge


class OutcomeUnknownError(TransportError):
    """The server may or may not have run a request: the response was lost, and sending it again might run it twice."""

    def __init__(self, message: str) -> None:
        super().__init__(message, may_have_begun=True, may_pass=False)


class TokenStorageError(OSError):
    """The token storage cannot be used. The message has the reason and what to do, and no token."""


for _public in (
    ArgumentsError, AuthorizationError, CallTimeoutError, ChallengeError, ClientResponseError, ElicitationError,
    InputRequired, InsufficientScopeError, LoginNeededError, MissingCapabilityError, OutcomeUnknownError,
    ProcessEndedError, PromptError, ProtocolError, ProviderUnavailableError, RegistrationError, ResourceError,
    ResourceNotFoundError, StatusError, TokenStorageError, ToolError, TransportError,
):  # fmt: skip
    _public.__module__ = "mcpkit.exceptions"
