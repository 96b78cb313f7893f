"""Content blocks, contents of resources and forms, as the official schemas have them."""

# ruff: noqa: UP007, UP045 - the old spellings of unions are tested on purpose
from __future__ import annotations

import datetime as dt
import enum
import json
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

import annotated_types as at
import pytest
from pydantic import Field
from typing_extensions import TypedDict

from mcpkit.schema.form import Form
from mcpkit.schema.form_fields import FORMS
from mcpkit.schema.texts import Email, Uri
from tests.helpers.official import official
from tests.helpers.tables import each_row

REVISION = "2026-07-28"


@pytest.fixture(scope="module")
def definitions(schema_dir: Path) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((schema_dir / REVISION / "schema.json").read_text(encoding="utf-8"))
    return schema


REVISIONS = sorted(FORMS)


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


class Nothing(TypedDict):
    pass


PLAIN: list[Any] = [
    *(str, int, float, bool, dt.date, dt.datetime, Color, Size, Email, Uri, Plan, Literal["a", "b"]),
    *(Optional[str], Optional[Plan], Literal["a", None], Nothing),
    Annotated[str, Field(title="Name", description="Yours", max_length=9)],
]


NEWER: list[Any] = [
    *(list[Color], list[Size], list[Plan], set[Size], tuple[Literal["a"], ...]),
    Annotated[list[Literal["a", "b"]], at.Len(1, 2)],
    Annotated[Optional[Plan], Field(title="Plan", default="pro")],
]
"""Types that the oldest version cannot ask for."""


def request(schema: Any) -> dict[str, Any]:
    return {"method": "elicitation/create", "params": {"message": "Well?", "requestedSchema": schema}}


@each_row(
    ("annotation", "revision"),
    [(each, revision) for each in PLAIN for revision in REVISIONS]
    + [(each, revision) for each in NEWER for revision in REVISIONS[1:]],
)
def test_form_request_fits_official_schema(annotation, revision, schema_dir):
    message = request(Form.of(annotation).schema(revision))
    judge = official(schema_dir, revision)
    if "jsonrpc" in judge.definitions["ElicitRequest"]["properties"]:
        message |= {"jsonrpc": "2.0", "id": 1}
    judge.check("ElicitRequest", message)
