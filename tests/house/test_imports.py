"""What the rules of the house lean on: how imports, circles, floors and private names are read from code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from floors import Floors, room, rooms
from imports import circles, entries, imports, reaches, read, uses

Written = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Written:
    """Write a package of files given by name; `__` in a name stands for a slash."""

    def written(**files: str) -> Path:
        package = tmp_path / "house"
        for name, code in {"__init__": "", **files}.items():
            path = package / f"{name if name == '__init__' else name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(code))
        return package

    return written


@pytest.mark.parametrize(
    "code",
    [
        "import house.low.ground",
        "from house.low.ground import floor",
        "from .low.ground import floor",
        "from .low import ground",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .low.ground import floor",
        "def later():\n    from .low.ground import floor",
        "import importlib\nimportlib.import_module('house.low.ground')",
    ],
)
def test_every_import_counts(write: Written, code: str) -> None:
    package = write(low__ground="floor = 1", top=code)
    assert imports(read(package), "house")["top.py"] == {"low/ground.py"}


def test_imports_from_below_a_folder(write: Written) -> None:
    package = write(low__ground="from ..top import roof\nfrom . import wall", low__wall="", top="roof = 1")
    assert imports(read(package), "house")["low/ground.py"] == {"top.py", "low/wall.py"}


def test_other_packages_do_not_count(write: Written) -> None:
    package = write(top="import os\nfrom json import loads\nfrom housekeeping import top", os="")
    assert imports(read(package), "house")["top.py"] == set()


def test_circles_are_found_over_others() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a", "e"}, "e": {"f"}, "f": {"e"}}
    assert circles(graph) == [["a", "b", "c"], ["e", "f"]]


def test_rooms_import_what_their_modules_import() -> None:
    graph = {
        "a.py": {"low/b.py"},
        "low/b.py": {"low/c.py", "high/d.py"},
        "low/c.py": set(),
        "high/d.py": {"a.py"},
    }
    assert room("low/b.py") == "low/"
    assert rooms(graph) == {"a.py": {"low/"}, "low/": {"high/"}, "high/": {"a.py"}}


def test_the_longest_entry_says_where_a_module_stands() -> None:
    floors = Floors("ground.py low/ # the bottom\n\n# above it\nlow/high/")
    graph = {"low/a.py": {"low/high/b.py", "ground.py"}, "low/high/b.py": {"ground.py"}, "ground.py": set()}
    assert list(floors.upward(graph)) == [("low/a.py", "low/high/b.py")]
    assert floors.entry("elsewhere.py") is None


@pytest.mark.parametrize(
    "code",
    [
        "def use(x):\n    return x._kept",
        "def use(x):\n    x._kept = 1",
        "def use(x):\n    return x.room._kept",
        "from .other import _kept",
        "class A:\n    def __init__(self):\n        self.a = 1\ndef use(x: A):\n    return x._kept",
    ],
)
def test_a_private_name_of_another_module_is_a_reach(write: Written, code: str) -> None:
    assert [reach.name.split(".")[-1] for reach in reaches(read(write(top=code)), "house")] == ["_kept"]


@pytest.mark.parametrize(
    "code",
    [
        "class A:\n    def use(self):\n        return self._kept",
        "class A(B):\n    def use(self):\n        return super()._kept",
        "class A:\n    __slots__ = ('_kept',)\ndef use(x: A):\n    return x._kept",
        "class A:\n    def __init__(self):\n        self._kept = 1\ndef use(x: A):\n    return x._kept",
        "class A:\n    _kept: int\ndef use(x: A):\n    return x._kept",
        "def use(x):\n    return x.__dict__",
        "from os import _exit",
    ],
)
def test_what_a_module_keeps_to_itself_is_its_own(write: Written, code: str) -> None:
    assert reaches(read(write(top=code)), "house") == []


def test_entries_and_uses(write: Written) -> None:
    package = write(
        low__ground="", top="from typing import Any\nimport typing\na: Any = 1\nb: typing.Any = 2"
    )
    (package / "py.typed").touch()
    assert entries(package) == ["__init__.py", "low/", "top.py"]
    assert uses(read(package), "Any") == 2
