"""Form elicitation: forms for the user to fill in (client/elicitation, "Form Mode Elicitation Requests")."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, cast

from .._utils.exceptions import MalformedError
from .._utils.option_checks import nearest
from ..content.json_encoding import json_value
from ..protocol.jsonrpc import Json, is_array, is_object
from ..requests.elicitation_and_sampling import ElicitationResult
from .tools.server_schemas import ServerSchema, UnusableSchemaError

FieldKind = Literal["string", "integer", "number", "boolean", "choice", "choices"]

_KINDS: Final[dict[str, FieldKind]] = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
}


class FormChoice(NamedTuple):
    """One option of a field.

    Args:
        value: The value to send.
        title: The text to display.
    """

    value: str
    title: str


class FormField(NamedTuple):
    """One field of a form.

    Args:
        name: The name of the field in the response.
        title: The text to display; `name` if the server sends no title.
        description: A description, or None.
        kind: The type of its value: `string`, `integer`, `number`, `boolean`, `choice` for one of `choices`, or
            `choices` for a list of them.
        choices: The options; empty for the other kinds.
        default: The value sent if the user leaves the field out; None if there is no default.
        is_required: Whether the field must have a value.
        schema: The JSON Schema of the field, with limits and formats.
    """

    name: str
    title: str
    description: str | None
    kind: FieldKind
    choices: tuple[FormChoice, ...]
    default: Any
    is_required: bool
    schema: Json


class FormRequest:
    """A form elicitation: a server requests that the user fills in a form.

    Args:
        params: The params of the request.
        server: The server's `Implementation`.

    Attributes:
        message: The text that explains the form to the user.
        fields: The fields, in order.
        schema: The JSON Schema of the form, as the server sent it (`requestedSchema`).
        params: All params of the request.
        server: The server's `Implementation` (`name`, `title`). Show the user which server sends the form.

    Raises:
        MalformedError: The params are malformed.
    """

    __slots__ = ("_validator", "fields", "message", "params", "schema", "server")

    def __init__(self, params: Json, server: Json) -> None:
        message, schema = params.get("message"), params.get("requestedSchema")
        if not isinstance(message, str):
            raise MalformedError("message: expected a string")
        properties: object = schema.get("properties") if is_object(schema) else None
        if not is_object(schema) or schema.get("type") != "object" or not is_object(properties):
            raise MalformedError("requestedSchema: expected an object with properties")
        try:
            self._validator = ServerSchema(schema, asserts_formats=True)
        except UnusableSchemaError as error:
            raise MalformedError(f"requestedSchema: {error}") from None
        required: object = schema.get("required")
        self.message = message
        self.schema = schema
        self.params = params
        self.server = server
        self.fields = tuple(
            _field(name, each if is_object(each) else {}, is_array(required) and name in required)
            for name, each in properties.items()
        )

    def decline(self) -> ElicitationResult[Any]:
        """Return the value for a handler when the user declines the form."""
        return ElicitationResult("decline")

    def cancel(self) -> ElicitationResult[Any]:
        """Return the value for a handler when the user dismisses the form without a choice. None means the same."""
        return ElicitationResult("cancel")

    def result(self, answer: object) -> Json:
        """Return the `ElicitResult` to send to the server. Defaults fill in fields that are left out.

        Args:
            answer: The values by field name, or an object with these attributes; for a form with one field also the
                value alone; `decline()`, `cancel()` or None.

        Raises:
            ValueError: The values do not fit the form; the message names the place.
            TypeError: The answer is none of these.
        """
        entries = answer
        if isinstance(answer, ElicitationResult):
            result = cast("ElicitationResult[object]", answer)
            if not result:
                return {"action": result.action}
            entries = result.value
        if entries is None:
            return {"action": "cancel"}
        content = self._content(entries)
        self._check(content)
        return {"action": "accept", "content": content}

    def _content(self, answer: object) -> Json:
        entries = json_value(answer, "the value of elicitation_handler")
        if not is_object(entries):
            if len(self.fields) != 1:
                names = ", ".join(field.name for field in self.fields[:20])
                raise TypeError(
                    f"elicitation_handler must return a dict of the form's fields ({names}), request.decline() or "
                    f"None, not {answer!r}"
                )
            entries = {self.fields[0].name: entries}
        content = {name: entry for name, entry in entries.items() if entry is not None}
        for field in self.fields:
            if field.name not in content and field.default is not None:
                content[field.name] = field.default
        return content

    def _check(self, content: Json) -> None:
        known = [field.name for field in self.fields]
        lines = [str(problem) for problem in self._validator.problems(content)]
        for name in content:
            if name not in known:
                guess = nearest(name, known)
                hint = f'did you mean "{guess}"?' if guess else f"there are: {', '.join(known[:20])}"
                lines.append(f"{name}: the form has no such field; {hint}")
        if lines:
            raise ValueError(
                "\n".join(["the value of elicitation_handler does not fit the form:", *lines[:10]])
            )

    def __repr__(self) -> str:
        """Return a representation with the message and the names of the fields."""
        return f"FormRequest({self.message!r}, fields={[field.name for field in self.fields]})"


def _field(name: str, schema: Json, is_required: bool) -> FormField:
    title, description = schema.get("title"), schema.get("description")
    kind, choices = _KINDS.get(str(schema.get("type")), "string"), _choices(schema)
    if choices:
        kind = "choice"
    elif schema.get("type") == "array":
        items: object = schema.get("items")
        kind, choices = "choices", _choices(items) if is_object(items) else ()
    return FormField(
        name,
        title if isinstance(title, str) else name,
        description if isinstance(description, str) else None,
        kind,
        choices,
        schema.get("default"),
        is_required,
        schema,
    )


def _choices(schema: Json) -> tuple[FormChoice, ...]:
    """Return the options of a field, in any of the forms of the specification."""
    for union in ("oneOf", "anyOf"):
        titled = schema.get(union)
        if is_array(titled) and all(
            is_object(each) and isinstance(each.get("const"), str) for each in titled
        ):
            return tuple(FormChoice(each["const"], str(each.get("title", each["const"]))) for each in titled)
    values, names = schema.get("enum"), schema.get("enumNames")
    if not is_array(values):
        return ()
    if not is_array(names) or len(names) != len(values):
        names = values
    return tuple(FormChoice(value, str(name)) for value, name in zip(values, names, strict=True))
