"""The picture of the house shows what is there."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from counts import kept
from floors import Floors
from imports import Graph
from picture import DRAWN, draw

FLOORS = Floors("errors.py\nlow/ side.py\nserver.py")
GRAPH = {
    "errors.py": {"server.py"},
    "low/a.py": {"low/b.py", "side.py"},
    "low/b.py": {"errors.py"},
    "side.py": set(),
    "server.py": {"low/a.py", "errors.py"},
}


def heights(picture: str) -> dict[str, float]:
    """Return where the names stand, in pixels from the top."""
    texts = ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")
    return {text.text or "": float(text.attrib["y"]) for text in texts}


def test_higher_floors_stand_higher() -> None:
    found = heights(draw(GRAPH, FLOORS))
    assert found["server.py"] < found["low/"] == found["side.py"] < found["errors.py"]
    assert found["low/"] < found["a"] < found["b"]


def test_arrows_that_others_imply_are_left_out_and_those_that_run_up_are_not() -> None:
    picture = draw(GRAPH, FLOORS)
    assert picture.count('class="down"') == 3  # not from the server to the errors
    assert picture.count('class="up"') == 1
    assert "5 modules in 4 rooms on 3 floors. Arrows run to what is imported: 3 down, 1 up" in picture


def test_rooms_of_a_floor_that_import_each_other_are_a_circle() -> None:
    assert draw(GRAPH | {"side.py": {"low/b.py"}}, FLOORS).count('class="up"') == 3


def test_long_floors_and_large_rooms_stay_within_the_picture() -> None:
    names = [f"room{number}.py" for number in range(50)]
    graph = {name: set[str]() for name in names} | {f"hall/file{number}.py": set() for number in range(99)}
    picture = draw(graph, Floors("\n".join([" ".join(names), "hall/"])))
    width = float(re.findall(r'viewBox="0 0 (\d+)', picture)[0])
    boxes = re.findall(r'class="room" x="([-\d]+)" y="\d+" width="(\d+)"', picture)
    assert len(boxes) == 51
    assert all(float(left) >= 0 and float(left) + float(wide) <= width for left, wide in boxes)


@pytest.mark.slow
@pytest.mark.skipif(kept()["imports of a higher floor"] > 0, reason="it is drawn when the walls stand")
def test_the_picture_in_the_documentation_is_of_this_house(graph: Graph) -> None:
    assert DRAWN.read_text("utf-8") == draw(graph, Floors.declared()), "run `make house`"
