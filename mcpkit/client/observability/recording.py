"""Records the messages of a client, and replays them without the server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO, TypeGuard

from ..._utils.exceptions import TransportError
from ...protocol.jsonrpc import Json, is_object
from ...protocol.revisions import SUBSCRIPTION_ID
from ..client_messages import OutgoingMessage
from ..link.link import Direction
from ..link.transport import TransportListener
from .masking import Mask

_OWN: Final = "_meta"
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
        self.came: list[Json] = []

    def lines(self, id_: object) -> Iterator[bytes]:
        """Return the recorded messages with another request id."""
        for message in self.came:
            yield json.dumps(self._as_if(message, id_)).encode()

    def _as_if(self, message: Json, id_: object) -> Json:
        if message.get("id") == self.id and "method" not in message:
            return {**message, "id": id_}
        params = message.get("params")
        if not is_object(params):
            return message
        if params.get("progressToken") == self.id:
            params = {**params, "progressToken": id_}
        meta = params.get(_OWN)
        if is_object(meta) and meta.get(SUBSCRIPTION_ID) == self.id:
            params = {**params, _OWN: {**meta, SUBSCRIPTION_ID: id_}}
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
        if is_request(message := entry.get("sent")):
            exchange = _Exchange(_key(message["method"], message.get("params", {})), message["id"])
            waiting.append(exchange)
            yield exchange
        elif is_object(message := entry.get("received")):
            waiting = [each for each in waiting if not _take(each, message)]


def _take(exchange: _Exchange, message: Json) -> bool:
    """Add a message to an exchange, and return whether it was the response."""
    params = message.get("params")
    token = params.get("progressToken") if is_object(params) else None
    is_answer = "method" not in message
    if is_answer and message.get("id") != exchange.id:
        return False
    if token is None or token == exchange.id:
        exchange.came.append(message)
    return is_answer


def is_request(message: object) -> TypeGuard[Json]:
    """Return whether a message is a request."""
    return is_object(message) and "id" in message and isinstance(message.get("method"), str)


def _key(method: str, params: object) -> str:
    told = {name: value for name, value in params.items() if name != _OWN} if is_object(params) else {}
    return f"{method} {json.dumps(told, sort_keys=True, ensure_ascii=False)}"
