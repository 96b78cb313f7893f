"""The values of secret fields stand in no message."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field, SecretBytes, SecretStr

from mcpkit.common.errors import ArgumentsError
from mcpkit.schema import explicit
from tests.helpers.structures import arguments_of

HIDDEN = Field(json_schema_extra={"writeOnly": True})
LONG = ": expected a string of at least 12 characters, got a string"
PASSWORD = Field(json_schema_extra={"format": "password"})


class Login(BaseModel):
    user: str
    password: Annotated[SecretStr, Field(min_length=12)]


class Vault(BaseModel):
    logins: list[Login]
    parts: list[Vault] = []


def _never(value: Any) -> Any:
    raise ValueError("it is too weak")


@pytest.mark.parametrize(
    ("annotation", "sent", "problem"),
    [
        (Annotated[SecretStr, Field(min_length=12)], "hunter2", LONG),
        (SecretStr, 47.11, ": expected a string, got a number"),
        (SecretBytes, "hunter-2", ": expected a base64 string, got a string"),
        (Annotated[str, HIDDEN, Field(pattern="^1$")], "hunter2", ": expected a string that matches ^1$, got a string"),
        (Annotated[int, PASSWORD], "hunter2", ": expected an integer, got a string"),
        (Annotated[int, PASSWORD], True, ": expected an integer, got a boolean"),
        (Annotated[list[int], HIDDEN], [1, "hunter2"], "[1]: expected an integer, got a string"),
        (Annotated[dict[str, int], HIDDEN], {"a": "hunter2"}, ".a: expected an integer, got a string"),
        (Login, {"user": "ada", "password": "hunter2"}, f".password{LONG}"),
        (Login, '{"user": "ada", "password": "hunter2', ": expected an object, got a string"),
        (Login | None, [{"user": "ada", "password": "hunter2"}], ": expected an object or null, got an array"),
        (Login | int, "hunter2", ": expected an object or an integer, got a string"),
        (Vault, {"logins": "hunter2"}, ".logins: expected an array, got a string"),
        (Vault, {"logins": [], "parts": "hunter2"}, ".parts: expected an array, got a string"),
        (Annotated[SecretStr, AfterValidator(_never)], "hunter2", ": it is too weak"),
    ],
)  # fmt: skip
def test_a_secret_is_not_shown(annotation: Any, sent: Any, problem: str) -> None:
    with pytest.raises(ArgumentsError) as caught:
        arguments_of(annotation).validate({"value": sent})
    assert "hunter" not in str(caught.value)
    assert str(caught.value) == f"value{problem}"


def test_what_stands_beside_a_secret_is_shown() -> None:
    with pytest.raises(ArgumentsError) as caught:
        arguments_of(Login).validate({"value": {"user": 5.5, "password": "hunter2"}})
    assert str(caught.value).splitlines()[0] == "value.user: expected a string, got 5.5"
    assert "hunter" not in str(caught.value)


def test_a_secret_of_a_json_schema_is_not_shown() -> None:
    schema = {
        "type": "object",
        "properties": {
            "pin": {"$ref": "#/$defs/pin"},
            "keys": {"type": "array", "writeOnly": True, "contains": {"const": 1}},
            "size": {"type": "integer"},
        },
        "$defs": {"pin": {"type": "string", "format": "password", "minLength": 12}},
    }
    with pytest.raises(ArgumentsError) as caught:
        explicit.arguments(schema).validate({"pin": "hunter2", "keys": ["hunter2"], "size": "small"})
    assert str(caught.value).splitlines() == [
        "pin: expected a string of at least 12 characters, got a string",
        'keys: an array does not fit {"contains":{"const":1}}',
        'size: expected an integer, got "small"',
    ]
