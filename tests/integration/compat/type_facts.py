"""Prints the classes of a module such as `mcp.types`, as JSON: run with the real library, or called with ours."""

import inspect
import json
import sys
from datetime import datetime
from importlib import import_module
from types import UnionType
from typing import Union, get_args, get_origin

from pydantic import BaseModel, ValidationError


def facts(module, names, samples):
    """Give the schemas of the models, the other values, and what becomes of each sample."""
    values = {name: getattr(module, name, None) for name in names}
    models = {name: it for name, it in values.items() if inspect.isclass(it) and issubclass(it, BaseModel)}
    return {
        "schemas": {
            name: {mode: model.model_json_schema(mode=mode) for mode in ("validation", "serialization")}
            for name, model in models.items()
        },
        "fields": {
            name: [(field, it.alias, repr(it.default)) for field, it in model.model_fields.items()]
            for name, model in models.items()
        },
        "values": {name: written(it) for name, it in values.items() if name not in models},
        "samples": [outcome(models[name], sample) for name, sample in samples],
    }


def written(value):
    if get_origin(value) in {Union, UnionType}:
        return sorted(repr(written(each)) for each in get_args(value))
    return [str(each) for each in get_args(value)] or getattr(value, "__name__", str(value))


def outcome(model, sample):
    try:
        made = model.model_validate(sample)
    except ValidationError as wrong:
        return [[error["type"], [str(step) for step in error["loc"]]] for error in wrong.errors()]
    return {
        "json": made.model_dump(mode="json", by_alias=True, exclude_none=True),
        "order": json.dumps(made.model_dump(mode="json")),
        "schemaless": made.model_dump_json(by_alias=True),
        "made of": type(getattr(made, "root", made)).__name__,
        "times": [name for name, value in made if isinstance(value, datetime)],
    }


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    theirs = import_module("mcp.types")
    public = [name for name in vars(theirs) if not name.startswith("_")]
    found = facts(theirs, asked["names"], asked["samples"])
    json.dump({"public": public, **found}, sys.stdout)
