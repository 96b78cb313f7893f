"""Validators and serializers that follow a given core schema, in every version of pydantic.

From 2.11 on, pydantic prefers the validator that it has built for a class to the schema of the class. The schemas of
mcpkit contain more, because they follow JSON Schema. From 2.13 on, an option turns that off.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

import pydantic_core
from pydantic_core import CoreSchema, SchemaSerializer, SchemaValidator

T = TypeVar("T")

_CAN_BE_TOLD = tuple(map(int, pydantic_core.__version__.split(".")[:2])) >= (2, 42)
_lock = threading.Lock()


def validator(core: CoreSchema) -> SchemaValidator:
    """Return the validator of a schema.

    Raises:
        SchemaError: The schema is invalid.
    """
    return _built(SchemaValidator, core)


def can_serialize(core: CoreSchema) -> bool:
    """Return True if pydantic follows a whole schema: before 2.13 not with fields that no class declares."""
    from .core_nodes import nodes  # which most servers do not need

    return _CAN_BE_TOLD or not any("extras_schema" in node for node in nodes(core))


def serializer(core: CoreSchema) -> SchemaSerializer:
    """Return the serializer of a schema.

    Raises:
        SchemaError: The schema is invalid.
    """
    return _built(SchemaSerializer, core)


def _built(build: Callable[..., T], core: CoreSchema) -> T:
    if _CAN_BE_TOLD:
        return build(core, _use_prebuilt=False)
    with _unbuilt(core):
        return build(core)


@contextmanager
def _unbuilt(core: CoreSchema) -> Generator[None, None, None]:
    """Hide the validators of a schema's classes. Another thread may build its own from the classes meanwhile."""
    from .core_nodes import nodes

    with _lock:
        classes = {
            node["cls"]
            for node in nodes(core)
            if node["type"] in {"model", "dataclass"} and isinstance(node.get("cls"), type)
        }
        built = [cls for cls in classes if cls.__dict__.get("__pydantic_complete__") is True]
        try:
            for cls in built:
                cls.__pydantic_complete__ = False
            yield
        finally:
            for cls in built:
                cls.__pydantic_complete__ = True
