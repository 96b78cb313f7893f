"""The fixtures of tests/storage, with Redis as the engine."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mcpkit.storage import Redis
from tests.helpers.redis_server import RedisServer
from tests.storage.conftest import clock, engine, frequent_switches, path, shared, turns

__all__ = ["clock", "engine", "frequent_switches", "path", "shared", "turns"]


@pytest.fixture(scope="session")
def engine_name() -> str:
    return "redis"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    options = ("--appendfsync", "always", "--repl-diskless-sync-delay", "0")
    with RedisServer(tmp_path / "redis", *options) as server:
        yield server


@pytest.fixture
def redis(server: RedisServer) -> Iterator[Redis]:
    with closing(Redis(server.url, prefix="own:")) as redis:
        yield redis


@pytest.fixture
def replica(server: RedisServer, tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "replica", "--replicaof", "127.0.0.1", str(server.port)) as started:
        yield started
