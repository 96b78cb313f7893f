"""Prompts and their manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from ..sdk_models import is_list
from ..types import AnyFunction, Icon, Json
from .described import Called, called
from .settings import get_logger

if TYPE_CHECKING:
    from .context import Context
    from .messages import Message

logger = get_logger("mcp.server.fastmcp.prompts.manager")


class PromptArgument(BaseModel, defer_build=True):
    """An argument of a prompt."""

    name: str
    description: str | None = None
    required: bool = False


class Prompt(Called):
    """A function that returns messages for a model."""

    description: str | None = None
    arguments: list[PromptArgument] | None = None

    @property
    def listed_arguments(self) -> object:
        """The arguments in the form of list results."""
        return to_jsonable_python(self.arguments or [])

    @classmethod
    def from_function(
        cls,
        fn: AnyFunction,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: list[Icon] | None = None,
        context_kwarg: str | None = None,
    ) -> Prompt:
        """Create a prompt from a function that returns texts, messages, dicts of messages, or a list of them."""
        told, schema = called(fn, name, context_kwarg)
        required, properties = schema.get("required", []), schema.get("properties", {})
        arguments = [
            PromptArgument(name=each, description=of.get("description"), required=each in required)
            for each, of in properties.items()
        ]
        said = description or fn.__doc__ or ""
        return cls(title=title, description=said, arguments=arguments, icons=icons, **told)

    async def render(self, arguments: Json | None = None, context: Context | None = None) -> list[Message]:
        """Call the function, and return its result as messages."""
        if missing := {each.name for each in self.arguments or () if each.required} - set(arguments or {}):
            raise ValueError(f"Missing required arguments: {missing}")
        from .messages import message_of

        try:
            result = await self.call(arguments or {}, context)
            return list(map(message_of, result if is_list(result) else [result]))
        except Exception as error:
            raise ValueError(f"Error rendering prompt {self.name}: {error}") from error


class PromptManager:
    """The prompts of one server."""

    def __init__(self, warn_on_duplicate_prompts: bool = True) -> None:
        self._prompts: dict[str, Prompt] = {}
        self.warn_on_duplicate_prompts = warn_on_duplicate_prompts

    def get_prompt(self, name: str) -> Prompt | None:
        """Return a prompt; None if there is none with this name."""
        return self._prompts.get(name)

    def list_prompts(self) -> list[Prompt]:
        """Return all prompts."""
        return list(self._prompts.values())

    def add_prompt(self, prompt: Prompt) -> Prompt:
        """Add a prompt, and return it; if its name is taken, return the existing one."""
        existing = self._prompts.setdefault(prompt.name, prompt)
        if existing is not prompt and self.warn_on_duplicate_prompts:
            logger.warning("Prompt already exists: %s", prompt.name)
        return existing

    async def render_prompt(
        self, name: str, arguments: Json | None = None, context: Context | None = None
    ) -> list[Message]:
        """Return the messages of a prompt."""
        if (prompt := self.get_prompt(name)) is None:
            raise ValueError(f"Unknown prompt: {name}")
        return await prompt.render(arguments, context=context)
