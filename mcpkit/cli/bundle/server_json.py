"""`server.json` for the MCP registry: packages, bundles and URLs of a server.

The format is the schema of 2025-12-11 (docs/reference/server-json in the registry).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from ...protocol.jsonrpc import Json
from ..exit_status import CommandError
from .manifest import BundleInfo, UserSetting

_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"


def _check_exact(version: str) -> str:
    if version == "latest" or re.search(r"[\^~<>*=|]|(?:^|\.)[xX](?:\.|$)", version):
        raise ValueError("must be one version, such as 1.0.2, not a range")
    return version


_Version = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_check_exact)]
_HttpUrl = Annotated[str, Field(pattern=r"^https?://[^\s]+$")]


class _RegistryModel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class _Variable(_RegistryModel):
    """An environment variable that the user sets."""

    name: str
    default: str | None = None
    is_required: bool = False
    is_secret: bool = False


class _StdioTransport(_RegistryModel):
    type: Literal["stdio"] = "stdio"


class _Remote(_RegistryModel):
    """A server at a URL."""

    type: Literal["streamable-http"] = "streamable-http"
    url: _HttpUrl


class _Package(_RegistryModel):
    """A package that the user installs."""

    registry_type: Literal["pypi", "mcpb"]
    identifier: str
    version: _Version | None = None
    file_sha256: Annotated[str, Field(pattern=r"^[a-f0-9]{64}$")] | None = Field(
        default=None, alias="fileSha256"
    )
    runtime_hint: str | None = None
    transport: _StdioTransport = Field(default_factory=_StdioTransport)
    environment_variables: list[_Variable] | None = None


class _Repository(_RegistryModel):
    """The repository of the source code."""

    url: str
    source: str


class _ServerDetail(_RegistryModel):
    """The content of `server.json`."""

    schema_: str = Field(default=_SCHEMA, alias="$schema")
    name: Annotated[str, Field(min_length=3, max_length=200, pattern=r"^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$")]
    title: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    description: Annotated[str, Field(min_length=1, max_length=100)]
    version: _Version
    website_url: _HttpUrl | None = None
    repository: _Repository | None = None
    packages: list[_Package] | None = None
    remotes: list[_Remote] | None = None


_HINTS: Final = {
    "name": "the registry requires a name such as io.github.USER/weather. Correct --registry",
    "description": "the registry requires a description of 1 to 100 characters. Add --description",
    "title": "the registry requires a title of 1 to 100 characters. Add --title",
    "version": "the registry requires one version, such as 1.0.2. Add --version",
}


def create_server_json(
    info: BundleInfo,
    settings: Sequence[UserSetting],
    *,
    name: str,
    digest: str,
    pypi: str | None,
    download: str | None,
    remote: str | None,
) -> Json:
    """Return the content of `server.json`.

    Args:
        info: The description of the server.
        settings: The environment variables that the user sets.
        name: The name in the registry.
        digest: The SHA-256 of the bundle in hex digits.
        pypi: The name of the package on PyPI, or None.
        download: The URL where users download the bundle, or None.
        remote: The URL where the server runs, or None.

    Raises:
        CommandError: The registry would refuse a field; the message has the option to add.
    """
    packages: list[Json] = []
    if pypi:
        packages.append(
            {"registryType": "pypi", "identifier": pypi, "version": info.version, "runtimeHint": "uvx"}
        )
    if download:
        packages.append({"registryType": "mcpb", "identifier": download, "fileSha256": digest})
    variables = [
        {
            "name": each.variable,
            "isRequired": each.default is None,
            "isSecret": each.is_secret,
            "default": each.default,
        }
        for each in settings
    ]
    for package in packages:
        package["environmentVariables"] = variables or None
    urls = info.project.urls
    source = next((urls[key] for key in ("repository", "source", "github") if key in urls), None)
    service = re.match(r"https://(github|gitlab)\.com/", source or "")
    try:
        detail = _ServerDetail.model_validate(
            {
                "name": name,
                "title": info.title,
                "description": info.description,
                "version": info.version,
                "websiteUrl": urls.get("homepage"),
                "repository": {"url": source, "source": service[1]} if service else None,
                "packages": packages or None,
                "remotes": [{"url": remote}] if remote else None,
            }
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise CommandError(_HINTS.get(place, f"server.json: {place}: {first['msg']}")) from None
    return detail.model_dump(by_alias=True, exclude_none=True, mode="json")
