"""The contract of every engine, with Redis."""

from __future__ import annotations

import pytest

from tests.storage.test_broker import *  # noqa: F403
from tests.storage.test_queue import *  # noqa: F403

pytestmark = pytest.mark.slow
