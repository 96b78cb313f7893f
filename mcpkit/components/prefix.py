"""Names and URIs under the prefix of an `include`."""

from __future__ import annotations

from .component import Component


def prefixed(component: Component, prefix: str) -> str:
    """Return the name or URI of a component under a prefix; methods keep their names."""
    if component.kind in {"resource", "resource template"}:
        return prefixed_uri(component.key, prefix)
    if component.kind == "method":
        return component.key
    return prefixed_name(component.key, prefix)


def prefixed_name(name: str, prefix: str) -> str:
    """Return a name under a prefix: `weather` makes `weather_get_forecast`."""
    return f"{prefix}_{name}" if prefix else name


def prefixed_uri(uri: str, prefix: str) -> str:
    """Return a URI under a prefix, which is its first part after the scheme: `data://weather/stations`."""
    if not prefix:
        return uri
    scheme, separator, rest = uri.partition("://")
    return f"{scheme}{separator}{prefix}/{rest}" if separator else uri.replace(":", f":{prefix}/", 1)


def without_prefix(key: str, prefix: str, *, is_uri: bool) -> str | None:
    """Return the name or URI that becomes `key` under a prefix, or None."""
    plain = key.replace(f"{prefix}/" if is_uri else f"{prefix}_", "", 1) if prefix else key
    return plain if (prefixed_uri if is_uri else prefixed_name)(plain, prefix) == key else None
