"""Mount point of the app, and paths below it.

ASGI requires the mount point in `root_path` and at the beginning of `path`. Starlette and uvicorn do that. Other
servers and older frameworks cut it off `path`. FastAPI's `root_path=` puts the prefix of a proxy into `root_path` only.
Litestar cuts the mount point off without setting `root_path`, and ends each path with a slash.
"""

from __future__ import annotations

from urllib.parse import unquote

from starlette.types import Scope


def path_below(scope: Scope) -> str:
    """Return the path below the mount point of the app.

    Args:
        scope: Scope of an HTTP request.
    """
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if root:
        proxy: str = scope.get("app_root_path", "")
        for prefix in (root.rstrip("/"), root.removeprefix(proxy).rstrip("/")):
            if path.startswith(f"{prefix}/"):
                return path[len(prefix) :]
            if path == prefix:
                return "/"
    return path


def is_mounted(scope: Scope) -> bool:
    """Return True if the app is mounted in another one. The prefix of a proxy is not a mount point.

    Args:
        scope: Scope of an HTTP request.
    """
    proxy: str = scope.get("app_root_path", scope.get("root_path", ""))
    return mount_point(scope).strip("/") != proxy.strip("/")


def mount_point(scope: Scope) -> str:
    """Return the mount point of the app as clients see it, without a trailing slash; an empty string for the root.

    Args:
        scope: Scope of an HTTP request.
    """
    root: str = scope.get("root_path", "")
    raw_path: bytes | None = scope.get("raw_path")
    if raw_path is not None:
        asked = unquote(raw_path.decode("latin-1")).rstrip("/")
        path = path_below(scope).rstrip("/")
        if asked.endswith(path):
            # A proxy's prefix is in root_path alone, what Litestar cut off in raw_path alone.
            root = max(root, asked[: len(asked) - len(path)], key=len)
    root = root.strip("/")
    return f"/{root}" if root else ""
