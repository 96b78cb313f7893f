"""Measures many idle event streams: the cost of each, and the time of one notification to all of them."""

from __future__ import annotations

import selectors
import socket
import time
from contextlib import ExitStack
from statistics import median

import workload
from contenders import Contender
from figures import Figure, Series
from probes import Sample
from web_client import DEFAULT_TIMEOUT, WebServer, read_answer, stateless, stateless_headers

STREAMS = 1000
WARM = 20  # streams opened before memory is read, so that what is loaded on first use does not count
NOTIFICATIONS = 5  # of which the median counts
MARK = b"notifications/resources/updated"


class Streams:
    """A fresh server each time; `STREAMS` streams of `subscriptions/listen` to one resource, on a connection each."""

    def open(self, contender: Contender, stack: ExitStack) -> Contender:
        del stack
        return contender

    def sample(self, opened: Contender) -> Sample:
        with WebServer(opened, "streams") as server, ExitStack() as stack:
            for _ in range(WARM):
                open_stream(server).close()
            notify(server, [stack.enter_context(open_stream(server)) for _ in range(WARM)])
            before = server.observe()
            streams = [stack.enter_context(open_stream(server)) for _ in range(STREAMS)]
            after = server.observe()
            seconds = median(notify(server, streams) for _ in range(NOTIFICATIONS))
            cost = {key: (after[key] - before[key]) / STREAMS for key in after}
        return {
            "notified": seconds,
            "resident": cost["resident"],
            "tasks": cost["tasks"],
            "objects": cost["objects"],
        }


def open_stream(server: WebServer) -> socket.socket:
    """Open one stream and wait until it is acknowledged."""
    subscribed = {"notifications": {"resourceSubscriptions": [workload.STATE]}}
    body = stateless("subscriptions/listen", subscribed)
    stream = server.connect()
    stream.sendall(server.head(len(body), stateless_headers("subscriptions/listen")) + body)
    received = b""
    while b"acknowledged" not in received:
        chunk = stream.recv(65536)
        assert chunk, f"refused: {received!r}; standard error: {server.errors()}"
        received += chunk
    assert b"text/event-stream" in received, received
    return stream


def notify(server: WebServer, streams: list[socket.socket]) -> float:
    """Call the tool that sends the notification; return the seconds until the last of the streams has it."""
    body = stateless("tools/call", {"name": "touch", "arguments": {}})
    request = server.head(len(body), stateless_headers("tools/call", "touch")) + body
    with server.connect() as caller, selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ, bytearray())
        start = time.perf_counter()
        caller.sendall(request)
        waiting = len(streams)
        while waiting:
            ready = selector.select(DEFAULT_TIMEOUT)
            assert ready, f"{waiting} of {len(streams)} streams got no notification"
            for key, _ in ready:
                assert isinstance(key.fileobj, socket.socket)
                chunk = key.fileobj.recv(65536)
                assert chunk, "a stream was closed"
                key.data.extend(chunk)
                if MARK in key.data:
                    selector.unregister(key.fileobj)
                    waiting -= 1
        seconds = time.perf_counter() - start
        assert read_answer(caller).status == 200
    return seconds


def stream_series() -> Series:
    return Series(
        "streams",
        Streams(),
        [
            Figure(
                "notified",
                f"{STREAMS:,} listen streams: until the last has the notification of an update",
                "ms",
            ),
            Figure("resident", "... resident memory of the server for each", "KB", kind="share"),
            Figure("tasks", "... tasks for each", "tasks", kind="share"),
            Figure("objects", "... objects of the garbage collector for each", "objects", kind="share"),
        ],
        rounds=5,
        takes_part=lambda each: each.listens,
    )
