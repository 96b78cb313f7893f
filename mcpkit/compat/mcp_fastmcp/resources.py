"""Resources, resource templates, and their manager."""

from __future__ import annotations

import abc
import inspect
import re
from collections.abc import Callable
from math import factorial
from typing import TYPE_CHECKING, TypedDict

from pydantic import AnyUrl, Field, ValidationInfo, field_validator
from pydantic_core import to_json
from typing_extensions import Unpack

from ..types import Annotations, AnyFunction, Icon, Json
from .described import Called, Described, called, check_names, name_of, validated
from .settings import get_logger

if TYPE_CHECKING:
    from .context import Context

logger = get_logger("mcp.server.fastmcp.resources.resource_manager")

_MOST_STEPS = 10_000_000
"""Limit of the cost of matching a URI: its length to the power of the parameters in one path segment."""
_MIME_TYPE = r"^[a-zA-Z0-9]+/[a-zA-Z0-9\-+.]+(;\s*[a-zA-Z0-9\-_.]+=[a-zA-Z0-9\-_.]+)*$"


class Options(TypedDict, total=False):
    """Options of a resource or template."""

    title: str | None
    description: str | None
    mime_type: str | None
    icons: list[Icon] | None
    annotations: Annotations | None
    meta: Json | None


class _Shown(Described):
    """Fields that resources and templates share."""

    description: str | None = None
    mime_type: str = "text/plain"
    annotations: Annotations | None = None
    meta: Json | None = None


def _options(fn: AnyFunction, options: Options) -> Json:
    """Return the options of a component, with the function's docstring as the default description."""
    check_names("from_function", options, Options.__annotations__)
    said = options.get("description") or fn.__doc__ or ""
    return {**options, "description": said, "mime_type": options.get("mime_type") or "text/plain"}


class Resource(_Shown, abc.ABC, validate_default=True):
    """A resource with a URI."""

    uri: AnyUrl
    name: str | None = None
    mime_type: str = Field(default="text/plain", pattern=_MIME_TYPE)

    @field_validator("name", mode="before")
    @classmethod
    def set_default_name(cls, name: str | None, info: ValidationInfo) -> str:
        """Set the name to the URI if it is missing."""
        if name := name or str(info.data.get("uri", "")):
            return name
        raise ValueError("Either name or uri must be provided")

    @abc.abstractmethod
    async def read(self) -> str | bytes:
        """Return the content."""


class FunctionResource(Resource):
    """A resource with the return value of a function: text, bytes, or any value as JSON."""

    fn: Callable[[], object] = Field(exclude=True)

    async def read(self) -> str | bytes:
        """Call the function."""
        try:
            returned = self.fn()
            result = await returned if inspect.iscoroutine(returned) else returned
            if isinstance(result, Resource):
                return await result.read()
            if isinstance(result, bytes | str):
                return result
            return to_json(result, fallback=str, indent=2).decode()
        except Exception as error:
            raise ValueError(f"Error reading resource {self.uri}: {error}") from error

    @classmethod
    def from_function(
        cls, fn: AnyFunction, uri: str, name: str | None = None, **options: Unpack[Options]
    ) -> FunctionResource:
        """Create a resource from a function without parameters."""
        return cls(uri=AnyUrl(uri), name=name_of(fn, name), fn=validated(fn), **_options(fn, options))


class ResourceTemplate(_Shown, Called):
    """Resources with parameters in their URIs, which a function takes."""

    uri_template: str
    parameters: Json

    @classmethod
    def from_function(
        cls,
        fn: AnyFunction,
        uri_template: str,
        name: str | None = None,
        context_kwarg: str | None = None,
        **options: Unpack[Options],
    ) -> ResourceTemplate:
        """Create a template from a function."""
        told, parameters = called(fn, name, context_kwarg)
        return cls(uri_template=uri_template, parameters=parameters, **told, **_options(fn, options))

    def matches(self, uri: str) -> Json | None:
        """Return the parameters in a URI; None if it does not match, or matching would take too long."""
        most = max(each.count("{") for each in self.uri_template.split("/"))
        if most > 1 and len(uri) ** most > _MOST_STEPS * factorial(most):
            return None
        match = re.fullmatch(self.uri_template.replace("{", "(?P<").replace("}", ">[^/]+)"), uri)
        return None if match is None else match.groupdict()

    async def create_resource(self, uri: str, params: Json, context: Context | None = None) -> Resource:
        """Call the function, and return its result as a resource."""
        try:
            result = await self.call(params, context)
            shown = {each: getattr(self, each) for each in ("name", *_Shown.model_fields)}
            return FunctionResource(uri=AnyUrl(uri), fn=lambda: result, **shown)
        except Exception as error:
            raise ValueError(f"Error creating resource from template: {error}") from error


class ResourceManager:
    """The resources and templates of one server."""

    def __init__(self, warn_on_duplicate_resources: bool = True) -> None:
        self._resources: dict[str, Resource] = {}
        self._templates: dict[str, ResourceTemplate] = {}
        self.warn_on_duplicate_resources = warn_on_duplicate_resources

    def add_resource(self, resource: Resource) -> Resource:
        """Add a resource, and return it; if its URI is taken, return the existing one."""
        existing = self._resources.setdefault(str(resource.uri), resource)
        if existing is not resource and self.warn_on_duplicate_resources:
            logger.warning("Resource already exists: %s", resource.uri)
        return existing

    def add_template(
        self, fn: AnyFunction, uri_template: str, name: str | None = None, **options: Unpack[Options]
    ) -> ResourceTemplate:
        """Add a template, and replace one with the same text."""
        template = ResourceTemplate.from_function(fn, uri_template, name, **options)
        self._templates[template.uri_template] = template
        return template

    async def get_resource(self, uri: AnyUrl | str, context: Context | None = None) -> Resource:
        """Return the resource with a URI, or else the one of the first template that matches."""
        if resource := self._resources.get(text := str(uri)):
            return resource
        for template in self._templates.values():
            if params := template.matches(text):
                try:
                    return await template.create_resource(text, params, context=context)
                except Exception as error:
                    raise ValueError(f"Error creating resource from template: {error}") from error
        raise ValueError(f"Unknown resource: {uri}")

    def list_resources(self) -> list[Resource]:
        """Return all resources."""
        return list(self._resources.values())

    def list_templates(self) -> list[ResourceTemplate]:
        """Return all templates."""
        return list(self._templates.values())
