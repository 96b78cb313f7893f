"""Fixtures: an authorization server in process, and the steps of a login there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.oauth_flow import AuthServer, Login


@pytest.fixture
def server() -> AuthServer:
    return AuthServer()


@pytest.fixture
async def login(server: AuthServer) -> Login:
    return await server.login()


@pytest.fixture
async def code(server: AuthServer, login: Login) -> str:
    return await server.code(login)


@pytest.fixture
async def tokens(server: AuthServer, login: Login) -> dict[str, Any]:
    return await server.tokens(login)
