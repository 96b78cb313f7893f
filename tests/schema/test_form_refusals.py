"""What a form cannot ask, in some revisions or in any."""

# ruff: noqa: UP007, UP045 - the old spellings of unions are tested on purpose
from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional, Union
from uuid import UUID

import annotated_types as at
import pytest
from pydantic import BaseModel, Field, SecretStr
from typing_extensions import TypedDict

from mcpkit.common.errors import RegistrationError
from mcpkit.schema import UnresolvedHint
from mcpkit.schema.form import Form
from mcpkit.schema.texts import Format
from tests.helpers.form_types import OLDEST, City, Color, Order, Place, Point


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


def refusal(annotation: Any) -> str:
    """Return why no form can ask for a type."""
    with pytest.raises(RegistrationError) as raised:
        Form.of(annotation)
    return str(raised.value)


@pytest.mark.parametrize(
    ("annotation", "revision", "message"),
    [
        (list[Color], "2025-06-18", "has no multiple choice; ask for one of them"),
        (Annotated[str, Field(pattern="^a")], "2025-06-18", "has no `pattern` for a text; describe"),
        (Annotated[str, Field(pattern="^a")], "2026-07-28", "has no `pattern` for a text; describe"),
    ],
    ids=str,
)
def test_what_a_revision_cannot_say_is_refused(annotation, revision, message):
    form = Form.of(annotation)
    with pytest.raises(ValueError, match="cannot be asked: revision") as raised:
        form.schema(revision)
    assert f"revision {revision} {message}" in str(raised.value)
    assert form.schema("2025-11-25")


def test_the_message_names_the_field():
    with pytest.raises(
        ValueError, match=r"^Order: the field 'extras' cannot be asked: revision 2025-06-18 has"
    ):
        Form.of(Order).schema(OLDEST)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
def test_older_revisions_have_no_forms(revision):
    with pytest.raises(ValueError, match="has no forms; 2025-06-18 brought them"):
        Form.of(str).schema(revision)


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (dict[str, int], "is an object, and a form is flat"),
        (Optional[City], "is an object, and a form is flat"),
        (list[str], "is a list, and the only lists of a form are choices"),
        (list[City], "is a list, and the only lists"),
        (list[Optional[Color]], "is a list, and the only lists"),
        (tuple[Literal["a"], Literal["b"]], "is a list, and the only lists"),
        (Union[int, str], "is not of one type"),
        (Any, "is not of one type"),
        (None, "is not of one type"),
        (Literal[1, 2], "offers choices that are no texts"),
        (Level, "offers choices that are no texts"),
        (list[Level], "offers choices that are no texts"),
        (Literal[None], "offers choices that are no texts"),
        (SecretStr, "is a secret, which must not pass through a form; ask for it by a URL"),
        (UUID, "a form has no format 'uuid'; its formats are email, uri, date, date-time"),
        (dt.time, "a form has no format 'time'"),
        (bytes, "a form has no `contentEncoding` for a text"),
        (Annotated[int, Format("email")], "a form has no `format` for an integer"),
        (Annotated[float, at.Gt(0)], "a form has no `exclusiveMinimum` for a number; use `ge`"),
        (Annotated[int, at.MultipleOf(3)], "a form has no `multipleOf` for an integer"),
        (Annotated[str, Field(examples=["a"])], "a form has no `examples` for a text; leave it out"),
        (Annotated[dt.date, Field(default="soon")], "has the default 'soon', which does not fit it"),
        (
            Annotated[Literal["a", "b"], Field(json_schema_extra={"enumNames": ["A"]})],
            "has 1 enumNames for 2 choices",
        ),
    ],
    ids=str,
)
def test_what_no_form_can_ask_is_refused_at_once(annotation, message):
    assert message in refusal(annotation)


class Nested(BaseModel):
    city: Place


class Tree(BaseModel):
    children: list[Tree] = []
    parent: Tree | None = None


@dataclass
class Nest:
    at: Point
    pair: Annotated[Nested, "Two"]


@pytest.mark.parametrize(
    ("annotation", "field"), [(Nested, "city"), (Tree, "children"), (Nest, "at")], ids=str
)
def test_a_nested_object_is_refused_by_name(annotation, field):
    assert refusal(annotation).startswith(f"{annotation.__name__}: the field {field!r} is ")


def test_a_class_that_is_no_structure_is_refused():
    class Opaque:
        pass

    assert "no form in JSON; use a dataclass, a TypedDict or a pydantic model" in refusal(Opaque)


class Unknown(TypedDict):
    name: Missing  # noqa: F821 - not defined on purpose


@dataclass
class UnknownData:
    name: Missing  # noqa: F821 - not defined on purpose


@pytest.mark.parametrize("annotation", [Unknown, UnknownData])
def test_a_type_hint_that_is_not_defined(annotation):
    with pytest.raises(UnresolvedHint, match="'Missing' is not defined"):
        Form.of(annotation)
