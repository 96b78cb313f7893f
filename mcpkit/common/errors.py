"""Every exception that an author may raise or see, and what it becomes on the wire.

The wire form of each is in the error table of the architecture page; the numbers follow
"Error Codes" of the specification's base protocol page (revision 2026-07-28).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
"""Handshake era only; the stateless era answers INVALID_PARAMS."""
HEADER_MISMATCH = -32020
MISSING_CLIENT_CAPABILITY = -32021
UNSUPPORTED_PROTOCOL_VERSION = -32022


def said_by(error: BaseException) -> str | None:
    """Return the text of an exception; None where its class's `__str__` fails, as an author's may."""
    try:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - whatever it is, it is no answer of the function that has raised the error
        return None


class RegistrationError(Exception):
    """A component cannot be registered; the message says what to change in its definition."""


class UnresolvedHint(RegistrationError):  # noqa: N818 - names a state that a later try may find gone
    """A type hint names something that is not defined yet; it may be when the function is first used."""


class ProtocolError(Exception):
    """A JSON-RPC error, sent as it is.

    Args:
        code: The JSON-RPC error code. Take one of the standard codes or a number outside
            -32768 to -32000, which the protocol keeps for itself.
        message: One sentence that the client may show.
        data: Any JSON value with details, or None to leave it out.

    Raises:
        TypeError: The code is no whole number, or the message no string.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        given: tuple[Any, Any] = (code, message)
        if not (isinstance(given[0], int) and isinstance(given[1], str)):
            raise TypeError(
                f"ProtocolError takes a code (int) and a message (str), got {code!r} and {message!r}"
            )
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class MalformedError(ProtocolError):
    """A request is not as the specification wants it, whatever it asks for (-32602).

    Args:
        message: What is wrong, and what was expected.
    """

    def __init__(self, message: str) -> None:
        super().__init__(INVALID_PARAMS, message)


class TooLongError(ProtocolError):
    """A message is longer than what is taken, and is not read (-32600).

    Args:
        message: How long it may be.
        beginning: Its first bytes, which may tell whose it is.
        ending: The last bytes of it that have come.
    """

    def __init__(self, message: str, beginning: bytes = b"", ending: bytes = b"") -> None:
        super().__init__(INVALID_REQUEST, message)
        self.beginning = beginning
        self.ending = ending


class BusyError(ProtocolError):
    """Too much is going on, or the server is about to end; the same request may succeed later (-32603).

    Args:
        message: What there is too much of.
        retry_after: Seconds after which it makes sense to try again.
    """

    status: ClassVar = 503

    def __init__(self, message: str, *, retry_after: int = 1) -> None:
        super().__init__(INTERNAL_ERROR, message)
        self.retry_after = retry_after


class ChallengeError(ProtocolError):
    """Who asks must say who that is (401), or be granted more (403), before the request is served.

    Over HTTP that is the status, and the challenge the header `WWW-Authenticate`, unless an event stream has begun:
    then, and where there is no HTTP, it is the JSON-RPC error alone (-32600). Components, middleware and `principal=`
    may raise it (basic/authorization, "Scope Challenge Handling").

    Args:
        status: 401 or 403.
        challenge: As the header has it: `Bearer resource_metadata="https://..."`. Name all the scopes that the
            operation needs in one: `Bearer error="insufficient_scope", scope="read write"`.
        message: One sentence that the client may show; None for the challenge.

    Raises:
        TypeError: The challenge, or the message, is no string.
        ValueError: The status is another one, or the challenge holds what no header can: anything but visible ASCII
            and spaces.
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


class HandlerError(Exception):
    """Base of the errors whose text the author means for the client to see."""


class ToolError(HandlerError):
    """A tool could not do what it was asked; the model reads the text (`isError: true`)."""


class ResourceError(HandlerError):
    """A resource could not be read; the text is the message of the JSON-RPC error (-32603)."""


class ResourceNotFoundError(ResourceError):
    """There is no such resource (-32602; -32002 up to revision 2025-11-25).

    Args:
        uri: Its URI; None means the one that was asked for.
    """

    def __init__(self, uri: str | None = None) -> None:
        super().__init__("Resource not found" if uri is None else f"Resource not found: {uri}")
        self.uri = uri


class PromptError(HandlerError):
    """A prompt could not be rendered; the text is the message of the JSON-RPC error (-32603)."""


class CallTimeoutError(HandlerError):
    """A call has taken longer than it may (in a tool `isError: true`, elsewhere -32603).

    Args:
        seconds: How long it might take.
        has_begun: Whether its function was running, rather than waiting for earlier calls to end.
    """

    def __init__(self, seconds: float, *, has_begun: bool = True) -> None:
        text = f"timed out after {seconds:g} s"
        super().__init__(text if has_begun else f"{text} while it waited for earlier calls")
        self.seconds = seconds
        self.has_begun = has_begun


class ProcessEndedError(HandlerError):
    """The worker process that ran a function has ended without a result (in a tool `isError: true`, elsewhere -32603).

    Args:
        reason: What is known about its end.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"The worker process exited without a result ({reason})")
        self.reason = reason


class MissingCapabilityError(HandlerError):
    """The client has not declared a capability that it takes to serve the request.

    Stateless era: -32021 with `data.requiredCapabilities`. Handshake era: in a tool a result with
    `isError: true`, elsewhere -32602; the text names the capability.

    Args:
        names: What is missing, such as `sampling` or `elicitation.url`.
        required: The same as the client would declare it, such as `{"elicitation": {"url": {}}}`.
    """

    def __init__(self, names: Sequence[str], required: dict[str, Any]) -> None:
        what = "capability" if len(names) == 1 else "capabilities"
        super().__init__(f"The client does not declare the required {what} {', '.join(names)}")
        self.names = tuple(names)
        self.required = required


class InsufficientScopeError(HandlerError):
    """Whoever asks lacks scopes, and cannot be told by a status of HTTP: there is none, or the answer has begun.

    In a tool `isError: true` with `_meta["mcp/www_authenticate"]`, elsewhere -32600 with the same in `data`.

    Args:
        scopes: What the request needs.
        challenge: The same as `WWW-Authenticate` would have it.
    """

    def __init__(self, scopes: Sequence[str], challenge: str) -> None:
        super().__init__(f"This request needs scopes that were not granted: {', '.join(scopes)}")
        self.scopes = tuple(scopes)
        self.challenge = challenge

    @property
    def members(self) -> dict[str, list[str]]:
        """How a client that looks for it finds the challenge."""
        return {"mcp/www_authenticate": [self.challenge]}


class LoginNeededError(HandlerError):
    """There is no token of the user's for a provider: they have not logged in there, or have to do so again.

    Args:
        provider: Its name, as `ctx.upstream_token` takes it.
        title: What people call it.
        has_ended: Whether there was a login, which has ended.
    """

    def __init__(self, provider: str, title: str | None = None, *, has_ended: bool = False) -> None:
        what = f"the login with {title or provider} has ended. Log in again"
        super().__init__(
            what if has_ended else f"this request needs a login with {title or provider}. Log in there first"
        )
        self.provider = provider
        self.has_ended = has_ended


class ProviderUnavailableError(HandlerError):
    """The provider that users log in with cannot be asked for a new token just now; the same call may succeed later.

    Args:
        provider: Its name, as `ctx.upstream_token` takes it.
    """

    def __init__(self, provider: str) -> None:
        super().__init__(f"{provider} does not respond. Try again later")
        self.provider = provider


class ElicitationError(HandlerError):
    """The user did not accept a question without whose answer the handler cannot go on.

    Args:
        action: `decline` or `cancel`.
    """

    def __init__(self, action: str) -> None:
        super().__init__("The user declined" if action == "decline" else "The user cancelled")
        self.action = action


class ClientResponseError(HandlerError):
    """The client did not answer a question, or not with what was asked for.

    Args:
        text: What went wrong.
        code: The JSON-RPC error code that the client has answered with; None where it has not.
        reason: The text of that error; None where there is none.
    """

    def __init__(self, text: str, code: int | None = None, reason: str | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.reason = reason


class InvalidAnswerError(ClientResponseError):
    """An answer is not what was asked for.

    Args:
        problem: What was expected.
        is_form: Whether it is the entries of a form, which the user can be asked for again.
    """

    def __init__(self, problem: str, *, is_form: bool = False) -> None:
        super().__init__(f"The client's response is invalid: {problem}")
        self.problem = problem
        self.is_form = is_form


class InputRequired(BaseException):
    """Ends a round of a stateless request: the client has to answer first. Questions raise it; let it pass."""

    def __str__(self) -> str:
        """Tell whoever has caught it by mistake what it is."""
        return (
            "the client has to answer first, then the handler runs again. Do not catch this exception, "
            "and await the request within the handler"
        )


class Problem(NamedTuple):
    """One thing that is wrong with one argument.

    Args:
        field: Where it is: the argument's name, with `.key` and `[index]` for what lies inside it.
            Empty for the arguments as a whole.
        message: What was expected and what came instead, for example
            `expected a number from -90 to 90, got "north"`.
    """

    field: str
    message: str

    def __str__(self) -> str:
        """Return the line that a model reads."""
        return f"{self.field}: {self.message}" if self.field else self.message


class ArgumentsError(HandlerError):
    """Arguments do not fit the schema of a tool, a prompt or a resource template.

    The text is one line for each problem, at most ten.
    """

    MAX_PROBLEMS = 10

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems[: self.MAX_PROBLEMS]]
        if len(self.problems) > self.MAX_PROBLEMS:
            lines.append(f"and {len(self.problems) - self.MAX_PROBLEMS} more")
        super().__init__("\n".join(lines))


class CallEndedError(RuntimeError):
    """A function asks something of a call that nobody waits for any more; it may end.

    Args:
        method: The method of the call.
    """

    def __init__(self, method: str) -> None:
        super().__init__(method)
        self.method = method

    def __str__(self) -> str:
        """Say what it is about."""
        return f"this Context belongs to a {self.method} request that has ended; use it only while its handler runs"


class OutputError(Exception):
    """What a function returned cannot be sent: it has run, but its result has no form in JSON, or not the promised one.

    A fault of the server, not of the caller, who is told all the same (in a tool `isError: true`, elsewhere -32603):
    what the function has done is done.

    Args:
        text: Which place in the result, what is there, and what to return instead; never the value.
    """
