"""Modules that simple definitions must not import, and schemas that do not depend on the hash seed."""

import subprocess
import sys

import pytest

from tests.helpers.tables import each_row

pytestmark = pytest.mark.slow

TYPES = """
import datetime, decimal, enum, pathlib, typing, uuid
from typing import Annotated, Literal, Optional
import annotated_types
from mcpkit.schema import Arguments, Output, Signature
class E(enum.Enum):
    A = "a"
class Place(typing.TypedDict):
    name: str
def f(a: int, b: Optional[list[str]], c: Literal["x"], d: E, e: datetime.date, g: uuid.UUID, h: pathlib.Path,
      i: decimal.Decimal, j: Annotated[float, "text"], k: Annotated[int, annotated_types.Ge(0)], m: bytes = b"",
      n: Place = None, **rest: int) -> dict[str, float]:
    '''Do.'''
arguments = Arguments.of(Signature.of(f, is_injected=lambda *_: False))
Output.of(dict[str, float]).dump({"a": 1.0})
try:
    arguments.validate({"a": "x"})
except Exception:
    pass
"""
FORMS = """
import dataclasses, typing
from typing import Annotated, Literal
from mcpkit.schema.elicitation_forms import Form
from mcpkit.schema.patterns_and_formats import Email
Data = dataclasses.make_dataclass("Data", [("mail", Annotated[Email, "Yours"]), ("sort", Literal["a"] | None, None)])
Form.of(Data).read({"mail": "a@b"}), Form.of(list[Literal["a"]]).read({"value": []})
"""
CONTENT = """
from mcpkit import Text
from mcpkit.content.results_to_blocks import to_content
to_content([Text("a"), {"b": 1}, "x"])
"""
MODULES = {"pydantic", "docstring_parser", "jsonschema", "email", "http", "starlette", "unittest", "pandas", "PIL",
    "matplotlib"}  # fmt: skip


@each_row(
    ("code", "modules"),
    [(TYPES, MODULES), (FORMS, {"pydantic"}), (CONTENT, {*MODULES, "mimetypes", "hashlib"})],
)
def test_simple_definitions_do_not_import(code: str, modules: set[str]) -> None:
    check = f"{code}\nimport sys; print(sorted({modules} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("[]\n", "")
