from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.helpers.browser import Browser
from tests.helpers.identity_provider import IdentityProvider
from tests.helpers.launched import Launched
from tests.interop.authorization.guarded import Guarded, official, ours
from tests.interop.authorization.user import User

Guard = Callable[[str], AbstractContextManager[Guarded]]


@pytest.fixture(params=[ours, official])
def guard(request: pytest.FixtureRequest) -> Guard:
    """Runs a server that wants tokens of an issuer: ours, and one of the official SDK as the control group."""
    run: Guard = request.param
    return run


@pytest.fixture
def guarded(guard: Guard, identity_provider: IdentityProvider) -> Iterator[Guarded]:
    """A server that wants tokens of the provider."""
    with guard(identity_provider.issuer) as server:
        yield server


@pytest.fixture
def user(browser: Browser) -> Iterator[User]:
    """Bob, at a fresh profile of the browser."""
    with browser.profile() as page:
        yield User(page)


@pytest.fixture
def launched(tmp_path: Path) -> Iterator[Launched]:
    """What programs open in their browser."""
    folder = tmp_path / "browser"
    folder.mkdir()
    launched = Launched(folder)
    yield launched
    launched.close()
