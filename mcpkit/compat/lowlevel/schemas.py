"""Schemas of tools, and what is wrong with values in the words of `jsonschema`, which is not asked where nothing is."""

from __future__ import annotations

from importlib import import_module

from ...client.tools.schemas import ServerSchema, UnusableSchemaError
from ...common.installation import install_command
from ...protocol.types import Incomplete, Json


class ToolSchema:
    """One schema, read once."""

    def __init__(self, schema: Json) -> None:
        self.schema = schema
        self._validator: Incomplete = None
        try:
            self._quick: ServerSchema | None = ServerSchema(schema)
        except UnusableSchemaError:
            self._quick = None  # of which `jsonschema` has the word

    def problem(self, value: object) -> str | None:
        """Return what is wrong with a value; None where nothing is."""
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
