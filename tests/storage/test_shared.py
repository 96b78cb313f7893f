"""What `Server(shared=...)` takes, and what it refuses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Memory, Server

SECRET = "a secret of sixteen bytes and more"


class Lasting(Memory):
    """An engine that says of itself that it outlives the process."""

    is_lasting = True


@pytest.fixture(autouse=True)
def no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MCPKIT_SECRET", raising=False)


@pytest.mark.parametrize("secret", ["argument", "environment"])
def test_what_outlives_the_process_needs_a_secret_that_does(
    secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        ValueError, match=r"Lasting\(\.\.\.\) outlives this process.* set MCPKIT_SECRET or write"
    ):
        Server("s", shared=Lasting())
    if secret == "environment":
        monkeypatch.setenv("MCPKIT_SECRET", SECRET)
    Server("s", shared=Lasting(), secret=SECRET if secret == "argument" else None)


def test_memory_needs_none() -> None:
    Server("s", shared=Memory())


@pytest.mark.parametrize("shared", ["notes.db", Path("notes.db")])
def test_a_path_is_no_engine(shared: Any) -> None:
    with pytest.raises(TypeError, match=re.escape("such as Memory() or Sqlite('notes.db'), got")):
        Server("s", shared=shared)


@pytest.mark.parametrize("shared", [5, {}, Memory])
def test_what_is_no_engine_is_refused(shared: Any) -> None:
    with pytest.raises(TypeError, match="shared must be an engine"):
        Server("s", shared=shared)


def test_an_engine_has_all_that_is_asked_of_it() -> None:
    class Half:
        is_lasting = True
        home = "here"
        read = write = claim = publish = subscribe = get = put = delete = Memory.get

    with pytest.raises(
        TypeError,
        match=r"shared lacks erase, spend, listening, items: mcpkit\.Shared says what an engine has",
    ):
        Server("s", shared=Half(), secret=SECRET)  # type: ignore[arg-type]  # the mistake
