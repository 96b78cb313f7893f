"""What the tests of forms have in common: types to ask for, and how one is asked and answered."""

# ruff: noqa: UP007 - the old spellings of unions are tested on purpose
from __future__ import annotations

import datetime as dt
import enum
from dataclasses import InitVar, dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, Union

import annotated_types as at
import pydantic
import pytest
from pydantic import AnyUrl, BaseModel, Field, field_validator
from typing_extensions import NotRequired, TypedDict

from mcpkit.common.errors import ArgumentsError
from mcpkit.schema.form import Form
from mcpkit.schema.form_fields import FORMS
from mcpkit.schema.texts import Email, Uri

REVISIONS = sorted(FORMS)
OLDEST, NEWEST = REVISIONS[0], REVISIONS[-1]


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.Enum):
    """How large."""

    SMALL = "s"
    LARGE = "l"

    @property
    def label(self) -> str:
        return self.name.capitalize()


Plan = Union[Annotated[Literal["free"], "Free for ever"], Annotated[Literal["pro"], "9 € a month"]]


@dataclass
class City:
    name: Annotated[str, "The city", at.Len(2, 20)]
    mail: Email
    people: Annotated[int, at.Gt(0), at.Lt(10**8)]
    area: Annotated[float, at.Ge(0.5)]
    color: Color
    size: Size
    founded: dt.date | None
    seen: dt.datetime | None = None
    page: Uri | None = None
    is_capital: bool = False


class Order(BaseModel):
    sort: Literal["tea", "coffee"] = Field("tea", title="Drink", description="What to drink")
    cups: Annotated[int, Field(ge=1, le=9)] = 1
    size: Size | None = Field(None, alias="how-large")
    mail: Email = "a@example.org"
    page: AnyUrl | None = None
    extras: Annotated[list[Literal["milk", "sugar"]], Field(min_length=1, max_length=2)] = ["milk"]
    plans: set[Plan] = set()

    @field_validator("cups")
    @classmethod
    def even(cls, cups: int) -> int:
        if cups == 7:
            raise ValueError("seven cups are too\nmany")
        return cups


class Point(NamedTuple):
    x: int
    y: float = 0.5


class Place(TypedDict):
    name: str
    note: str | None
    size: NotRequired[Annotated[int, "In metres"]]


@pydantic.dataclasses.dataclass
class Box:
    color: Color
    size: Size = Size.SMALL


@dataclass
class Span:
    first: int
    last: int
    scale: InitVar[int] = 1
    tags: list[Color] = field(default_factory=lambda: [Color.RED])
    length: int = field(init=False)

    def __post_init__(self, scale: int) -> None:
        if self.last < self.first:
            raise ValueError("the last comes before the first")
        self.length = (self.last - self.first) * scale


def asked(annotation: Any, revision: str = NEWEST) -> Any:
    """Return how a form asks for a single value."""
    return Form.of(annotation).schema(revision)["properties"]["value"]


def lines(annotation: Any, content: Any) -> list[str]:
    """Return what is wrong with an answer."""
    with pytest.raises(ArgumentsError) as raised:
        Form.of(annotation).read(content)
    return str(raised.value).splitlines()
