from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.browser import Browser, Profile
from tests.interop.authorization.proxy.proxied import Proxied, proxied
from tests.interop.authorization.user import User


@pytest.fixture
def proxy() -> Iterator[Proxied]:
    """A server with an `OAuthProxy`, and the provider behind it."""
    with proxied() as served:
        yield served


@pytest.fixture
def page(browser: Browser) -> Iterator[Profile]:
    """Bob's browser."""
    with browser.profile() as profile:
        yield profile


@pytest.fixture
def user(page: Profile) -> User:
    """Bob, at that browser."""
    return User(page)
