"""The tools of the corpus of wrong arguments: ordinary typed functions, each of which returns its arguments."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, SecretStr
from pydantic_core import to_json


class Room(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Attendee(BaseModel):
    name: str
    email: str


class Account(BaseModel, extra="forbid"):
    iban: str
    name: str


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: Annotated[float, Field(gt=0)]


class Square(BaseModel):
    kind: Literal["square"]
    side: int


class Filter(BaseModel):
    brand: str | None = None
    sizes: list[int] = []


def as_json(**arguments: Any) -> str:
    return to_json(arguments).decode()


async def get_forecast(
    latitude: Annotated[float, Field(ge=-90, le=90)],
    longitude: Annotated[float, Field(ge=-180, le=180)],
    days: int = 3,
    unit: Literal["celsius", "fahrenheit"] = "celsius",
) -> str:
    """Get the weather forecast for a location."""
    return as_json(latitude=latitude, longitude=longitude, days=days, unit=unit)


async def search_products(
    query: str,
    max_results: int = 10,
    tags: list[str] | None = None,
    only_available: bool = False,
    wanted: Filter | None = None,
) -> str:
    """Search the products of a shop."""
    return as_json(
        query=query, max_results=max_results, tags=tags, only_available=only_available, wanted=wanted
    )


async def add_numbers(numbers: list[int], scale: float = 1.0) -> str:
    """Add whole numbers."""
    return as_json(numbers=numbers, scale=scale)


async def create_event(
    title: str, start: dt.datetime, attendees: list[Attendee], reminder_minutes: int | None = None
) -> str:
    """Create an event in the calendar."""
    return as_json(title=title, start=start, attendees=attendees, reminder_minutes=reminder_minutes)


async def book_room(
    day: dt.date, room: Room, seats: Annotated[int, Field(ge=1, le=20)], note: str = ""
) -> str:
    """Book a room for a day."""
    return as_json(day=day, room=room, seats=seats, note=note)


async def pay(amount: Decimal, currency: Literal["CHF", "EUR", "USD"], to: Account) -> str:
    """Pay an amount of money to an account."""
    return as_json(amount=amount, currency=currency, to=to)


async def sign_in(
    user: str, password: Annotated[SecretStr, Field(min_length=12)], remember: bool = False
) -> str:
    """Sign in to the shop."""
    return as_json(user=user, password=password.get_secret_value(), remember=remember)


async def draw(shape: Circle | Square, at: tuple[float, float], layers: dict[str, int] | None = None) -> str:
    """Draw a shape."""
    return as_json(shape=shape, at=at, layers=layers)


async def take_note(text: str, key: str | int = "", answer: str | None = None) -> str:
    """Write something down."""
    return as_json(text=text, key=key, answer=answer)


TOOLS: list[Callable[..., Any]] = [
    get_forecast,
    search_products,
    add_numbers,
    create_event,
    book_room,
    pay,
    sign_in,
    draw,
    take_note,
]
