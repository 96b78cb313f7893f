"""Schemas of tools. Only if a value is invalid, `jsonschema` is imported for the message."""

from __future__ import annotations

from importlib import import_module

from ..._utils.package import install_command
from ...client.tools.server_schemas import ServerSchema, UnusableSchemaError
from ...protocol.jsonrpc import Json
from ...protocol.objects import Incomplete


class ToolSchema:
    """A JSON Schema that is compiled once."""

    def __init__(self, schema: Json) -> None:
        self.schema = schema
        self._validator: Incomplete = None
        try:
            self._quick: ServerSchema | None = ServerSchema(schema)
        except UnusableSchemaError:
            self._quick = None  # of which `jsonschema` has the word

    def problem(self, value: object) -> str | None:
        """Return the first problem of a value; None if it is valid."""
        if self._quick is not None and self._quick.is_whole and not self._quick.problems(value):
            return None
        try:
            jsonschema = import_module("jsonschema")
        except ImportError:
            raise RuntimeError(f"this schema needs jsonschema. Run: {install_command('compat')}") from None
        if self._validator is None:
            kind = jsonschema.validators.validator_for(self.schema)
            kind.check_schema(self.schema)
            self._validator = kind(self.schema)
        error = jsonschema.exceptions.best_match(self._validator.iter_errors(value))
        return None if error is None else error.message
