"""OpenTelemetry for the requests of a client, and tracing, recording and replaying of its messages."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from .._utils.exceptions import ProtocolError, TransportError
from .._utils.option_checks import check_function
from .._utils.package import missing_package
from ..protocol.jsonrpc import Json, is_array, is_object
from ..protocol.revisions import SUBSCRIPTION_ID
from .client_messages import OutgoingMessage
from .client_session import ClientSession, Direction
from .transport_interface_and_memory import TransportListener, secrets_of

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider
    from opentelemetry.util.types import AttributeValue

_BUCKETS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""The bucket boundaries in seconds that the conventions recommend."""


class ClientTelemetry:
    """Records a span of each request, and its duration as `mcp.client.operation.duration`.

    The span is a child of the current span. The client sends its context in `_meta` (`traceparent`, `tracestate`,
    `baggage`; basic/index, "OpenTelemetry trace context"), so that spans of the server are its children.

    Args:
        tracer_provider: The tracer provider. None takes the global one.
        meter_provider: The meter provider. None takes the global one.

    Raises:
        ImportError: OpenTelemetry is not installed: `pip install "mcpkit[otel]"`.
    """

    def __init__(
        self, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> None:
        try:
            from opentelemetry import metrics, propagate, trace
        except ImportError as error:
            raise ImportError(
                missing_package("ClientTelemetry", "OpenTelemetry", "otel"), name=error.name
            ) from error
        self._trace = trace
        self._propagate = propagate
        self._tracer = trace.get_tracer("mcpkit", tracer_provider=tracer_provider)
        self._duration = metrics.get_meter("mcpkit", meter_provider=meter_provider).create_histogram(
            "mcp.client.operation.duration",
            unit="s",
            description="Duration of requests as seen by the client.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )

    async def measure_request(
        self,
        send: Callable[..., Awaitable[Json]],
        session: ClientSession,
        method: str,
        params: Mapping[str, Any] | None,
        *arguments: Any,
    ) -> Json:
        """Send a request within a span and record its duration.

        Args:
            send: Sends the request. It takes method, params and `arguments`.
            session: The session with the server.
            method: The method.
            params: Its params.
            arguments: Further arguments of `send`.

        Returns:
            The result of `send`.

        Raises:
            BaseException: `send` failed.
        """
        params = params or {}
        name, attributes = _describe(method, params)
        attributes["mcp.protocol.version"] = session.wire.revision
        began = time.perf_counter()
        failed: str | None = "cancelled"
        with self._tracer.start_as_current_span(
            name, kind=self._trace.SpanKind.CLIENT, attributes=attributes, record_exception=False
        ) as span:
            try:
                carrier: dict[str, str] = {}
                self._propagate.inject(carrier)
                meta = {**carrier, **params.get("_meta", {})}
                result = await send(method, {**params, "_meta": meta}, *arguments)
                failed = "tool_error" if result.get("isError") else None
            except Exception as error:
                failed = str(error.code) if isinstance(error, ProtocolError) else type(error).__qualname__
                raise
            finally:
                ending = {} if failed is None else {"error.type": failed}
                span.set_attributes(ending)
                if failed == "tool_error":
                    span.set_status(self._trace.StatusCode.ERROR)
                self._duration.record(time.perf_counter() - began, {**attributes, **ending})
        return result


def _describe(method: str, params: Mapping[str, Any]) -> tuple[str, dict[str, AttributeValue]]:
    attributes: dict[str, AttributeValue] = {"mcp.method.name": method}
    name = params.get("name")
    if method == "tools/call":
        attributes["gen_ai.operation.name"] = "execute_tool"
        attributes["gen_ai.tool.name"] = str(name)
    elif method == "prompts/get":
        attributes["gen_ai.prompt.name"] = str(name)
    else:
        return method, attributes
    return f"{method} {name}", attributes


Trace = Callable[[Direction, str], object]
"""Called with the direction (`sent` or `received`) and the text of a message."""

LONGEST: Final = 4000
"""The most characters of a message that are printed to standard error."""

_ARROWS: Final = {"sent": "-->", "received": "<--"}


def trace_and_record(
    session: ClientSession,
    trace: Trace | bool,
    record: str | os.PathLike[str] | None,
    options: Mapping[str, object],
) -> Recorder | None:
    """Trace and record the messages of a session.

    Args:
        session: The session with the server.
        trace: The function to call; True for standard error, False for none.
        record: The file to write to, or None.
        options: The options of the client for its server, which may contain secrets.

    Returns:
        The recorder, or None.

    Raises:
        TypeError: `trace` is not a function.
    """
    if not isinstance(trace, bool):
        check_function(
            "trace",
            trace,
            "a direction (`sent` or `received`) and a string",
            or_else="or True",
            may_be_async=False,
        )
    mask = Mask.of(options, lambda: secrets_of(session.transport))
    if trace:
        show = _print_message if trace is True else trace
        session.frames.append(lambda direction, line: show(direction, mask.masked(line)))
    if record is None:
        return None
    recorder = Recorder(record, mask)
    session.frames.append(recorder)
    return recorder


def _print_message(direction: Direction, text: str) -> None:
    """Print a message to standard error, truncated if it is long."""
    rest = len(text) - LONGEST
    shown = text if rest <= 0 else f"{text[:LONGEST]}... {rest:,} characters more"
    print(_ARROWS[direction], shown, file=sys.stderr, flush=True)


# Masking of secrets

MASK: Final = "***"

_SECRET: Final = re.compile(
    r"pass(?:word|wd|phrase)|secret|token|authoriz|api[-_]?key|private[-_]?key|credential|cookie",
    re.IGNORECASE,
)
"""Parts of the names of secrets."""

_NOT_SECRET: Final = frozenset({"progressToken", "maxTokens"})
"""Names in the specification that look like those of secrets but are not."""

_SHAPES: Final = re.compile(
    r"(?<=Bearer )[\w.~+/=-]{8,}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*|(?:sk|pk|gh[opsur]|glpat|xox[abprs])[-_][\w-]{16,}"
)
"""Patterns of tokens."""

_SHORTEST: Final = 6
"""The fewest characters of a value that is masked everywhere. Shorter ones occur in many words."""


class Mask:
    """Masks secrets: members with the name of a secret, texts that look like tokens, and known values.

    Args:
        known: Values that are always masked.
        more: Returns further values that are secret at the moment.
    """

    def __init__(self, known: Iterable[str] = (), more: Callable[[], Iterable[str]] = tuple) -> None:
        self._values: set[str] = set()
        self._known: re.Pattern[str] | None = None
        self._more = more
        self._learn(known)

    def _learn(self, values: Iterable[str]) -> None:
        new = {value for value in values if len(value) >= _SHORTEST} - self._values
        if new:
            self._values |= new
            longest_first = sorted(self._values, key=len, reverse=True)
            self._known = re.compile("|".join(map(re.escape, longest_first)))

    @classmethod
    def of(cls, options: Mapping[str, object], more: Callable[[], Iterable[str]] = tuple) -> Mask:
        """Return the mask for the options of a client: its token, and secret headers and environment variables."""
        known = [str(options[name]) for name in ("token",) if isinstance(options.get(name), str)]
        for name in ("headers", "env"):
            values: Any = options.get(name) or {}
            known += [str(value) for key, value in values.items() if _SECRET.search(str(key))]
        return cls([*known, *(value.rpartition(" ")[2] for value in known)], more)

    def masked(self, line: bytes) -> str:
        """Return a message as one line of text, with its secrets masked."""
        self._learn(self._more())
        try:
            return json.dumps(self.value(json.loads(line)), ensure_ascii=False)
        except (ValueError, RecursionError):
            return self.text(line.decode(errors="replace"))

    def value(self, value: object) -> object:
        """Return a JSON value with its secrets masked."""
        if isinstance(value, str):
            return self.text(value)
        if is_array(value):
            return [self.value(each) for each in value]
        if is_object(value):
            return {
                name: MASK if isinstance(each, str) and _is_secret(name) else self.value(each)
                for name, each in value.items()
            }
        return value

    def text(self, text: str) -> str:
        """Return a text with tokens and known values masked."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        return _SHAPES.sub(MASK, text)


def _is_secret(name: str) -> bool:
    return name not in _NOT_SECRET and _SECRET.search(name) is not None


# Recording and replaying

_META: Final = "_meta"
"""The member of params that differs each time: progress token, trace context, client version."""


class Recorder:
    """Writes each message to a file, one per line.

    Args:
        path: The file. It is replaced when the first message is written.
        mask: Masks the secrets.

    Raises:
        FileNotFoundError: The folder does not exist.
    """

    def __init__(self, path: str | os.PathLike[str], mask: Mask) -> None:
        self._path = Path(path)
        if not self._path.parent.is_dir():
            raise FileNotFoundError(
                f"the folder {self._path.parent.absolute()} for the recording does not exist. Create it"
            )
        self._mask = mask
        self._file: TextIO | None = None

    def __call__(self, direction: Direction, line: bytes) -> None:
        """Write a message."""
        if self._file is None:
            self._file = self._path.open("w", encoding="utf-8")
        self._file.write(f'{{"{direction}": {self._mask.masked(line)}}}\n')
        self._file.flush()

    def close(self) -> None:
        """Close the file. A later message replaces the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


class Replay:
    """A transport that replays the recorded responses of a server: `Client(Replay("forecast.jsonl"))`.

    A request gets the recorded response, and the notifications before it, of a request with the same method and params.
    Repeated requests get the recorded responses in order, and then the last one.

    Args:
        path: A file written by `Client(..., record=path)`.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not a recording.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._recorded = list(_exchanges(self._path))
        self._played: set[int] = set()
        self._mask = Mask()
        self._receiver: TransportListener | None = None

    async def open(self, receiver: TransportListener) -> None:
        """Start the replay from the beginning.

        Args:
            receiver: Receives the recorded messages.
        """
        self._receiver = receiver
        self._played.clear()

    def send(self, message: OutgoingMessage) -> None:
        """Send a recorded response to the receiver. Notifications and responses are ignored.

        Args:
            message: The message of the client.

        Raises:
            TransportError: The recording has no such request.
        """
        assert self._receiver is not None
        if message.id is None or message.method is None:
            return
        key = _key(message.method, self._mask.value(message.params))
        alike = [number for number, exchange in enumerate(self._recorded) if exchange.key == key]
        if not alike:
            raise TransportError(
                f"the recording {self._path} does not contain {key}. Record again with Client(..., "
                "record=...)",
                may_have_begun=False,
                may_pass=False,
            )
        number = next((each for each in alike if each not in self._played), alike[-1])
        self._played.add(number)
        for line in self._recorded[number].lines(message.id):
            self._receiver.receive(line)

    async def close(self) -> None:
        """Detach the receiver."""
        self._receiver = None


class _Exchange:
    """A recorded request with the messages received until its response."""

    def __init__(self, key: str, id_: object) -> None:
        self.key = key
        self.id = id_
        self.received: list[Json] = []

    def lines(self, id_: object) -> Iterator[bytes]:
        """Return the recorded messages with another request id."""
        for message in self.received:
            yield json.dumps(self._with_id(message, id_)).encode()

    def _with_id(self, message: Json, id_: object) -> Json:
        if message.get("id") == self.id and "method" not in message:
            return {**message, "id": id_}
        params = message.get("params")
        if not is_object(params):
            return message
        if params.get("progressToken") == self.id:
            params = {**params, "progressToken": id_}
        meta = params.get(_META)
        if is_object(meta) and meta.get(SUBSCRIPTION_ID) == self.id:
            params = {**params, _META: {**meta, SUBSCRIPTION_ID: id_}}
        return {**message, "params": params}


def _exchanges(path: Path) -> Iterator[_Exchange]:
    """Read a recording. Each message received belongs to the requests pending at that time."""
    waiting: list[_Exchange] = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        try:
            entry: object = json.loads(line)
        except ValueError:
            entry = None
        if not is_object(entry) or len(entry) != 1:
            raise ValueError(
                f"{path}, line {number}: not a line of a recording. Record again with Client(..., record=...)"
            )
        message = entry.get("sent")
        if is_object(message) and "id" in message and isinstance(message.get("method"), str):
            exchange = _Exchange(_key(message["method"], message.get("params", {})), message["id"])
            waiting.append(exchange)
            yield exchange
        elif is_object(message := entry.get("received")):
            waiting = [each for each in waiting if not _add_message(each, message)]


def _add_message(exchange: _Exchange, message: Json) -> bool:
    """Add a message to an exchange, and return whether it was the response."""
    params = message.get("params")
    token = params.get("progressToken") if is_object(params) else None
    is_answer = "method" not in message
    if is_answer and message.get("id") != exchange.id:
        return False
    if token is None or token == exchange.id:
        exchange.received.append(message)
    return is_answer


def _key(method: str, params: object) -> str:
    own = {name: value for name, value in params.items() if name != _META} if is_object(params) else {}
    return f"{method} {json.dumps(own, sort_keys=True, ensure_ascii=False)}"
