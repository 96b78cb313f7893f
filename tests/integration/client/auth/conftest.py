from collections.abc import Iterator

import pytest

from tests.helpers.authorization_server import Granting, granting


@pytest.fixture
def server() -> Iterator[Granting]:
    """A protected server, and an authorization server that does what a test sets up."""
    with granting() as served:
        yield served
