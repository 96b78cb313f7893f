"""`server.json`, by which the MCP registry knows a server: what Python packages, bundles and remote servers say there.

The schema of 2025-12-11 (registry, docs/reference/server-json).
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from ...protocol.jsonrpc import Json
from ..exit_status import CommandError

SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"


def _check_exact(version: str) -> str:
    if version == "latest" or re.search(r"[\^~<>*=|]|(?:^|\.)[xX](?:\.|$)", version):
        raise ValueError("must be one version, such as 1.0.2, not a range")
    return version


_Version = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_check_exact)]
_HttpUrl = Annotated[str, Field(pattern=r"^https?://[^\s]+$")]


class _Described(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class Variable(_Described):
    """A variable of the environment, or a header, that a user sets."""

    name: str
    description: str | None = None
    default: str | None = None
    is_required: bool = False
    is_secret: bool = False


class Stdio(_Described):
    """A package that speaks over its standard streams."""

    type: Literal["stdio"] = "stdio"


class Remote(_Described):
    """A server at a URL."""

    type: Literal["streamable-http", "sse"] = "streamable-http"
    url: _HttpUrl
    headers: list[Variable] | None = None


class Package(_Described):
    """A package that is installed and started."""

    registry_type: Literal["pypi", "mcpb"]
    identifier: str
    version: _Version | None = None
    file_sha256: Annotated[str, Field(pattern=r"^[a-f0-9]{64}$")] | None = Field(
        default=None, alias="fileSha256"
    )
    runtime_hint: str | None = None
    transport: Stdio = Field(default_factory=Stdio)
    environment_variables: list[Variable] | None = None


class Repository(_Described):
    """Where the source of a server is."""

    url: str
    source: str
    subfolder: str | None = None


class ServerDetail(_Described):
    """What the registry knows of a server."""

    schema_: str = Field(default=SCHEMA, alias="$schema")
    name: Annotated[str, Field(min_length=3, max_length=200, pattern=r"^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$")]
    title: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    description: Annotated[str, Field(min_length=1, max_length=100)]
    version: _Version
    website_url: _HttpUrl | None = None
    repository: Repository | None = None
    packages: list[Package] | None = None
    remotes: list[Remote] | None = None


_HINTS: Final = {
    "name": "the registry requires a name such as io.github.USER/weather. Correct --registry",
    "description": "the registry requires a description of 1 to 100 characters. Add --description",
    "title": "the registry requires a title of 1 to 100 characters. Add --title",
    "version": "the registry requires one version, such as 1.0.2. Add --version",
}


def server_json(**told: object) -> Json:
    """Return `server.json` of a server.

    Args:
        told: The fields of `ServerDetail`.

    Raises:
        CommandError: The registry would refuse one of them; the message says which, and what to write.
    """
    try:
        detail = ServerDetail.model_validate(told)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise CommandError(_HINTS.get(place, f"server.json: {place}: {first['msg']}")) from None
    return detail.model_dump(by_alias=True, exclude_none=True, mode="json")
