"""A folder served as resources; files outside of it cannot be read."""

# pathlib and urllib would cost every server's start, folder or not.
# ruff: noqa: PTH112, PTH113, PTH116, PTH118, PTH119, PTH206

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING, Any

from .._utils.exceptions import RegistrationError, ResourceNotFoundError
from .._utils.package import missing_package
from ..components.component import optional
from ..components.resource import ResourceTemplate
from ..content import media_types
from ..content.blocks import File, check_uri

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack
    from watchfiles import Change as FileChange

    from ..components.component import Access, ComponentOptions

MAX_ENTRIES = 1000

# Errors of the operating system for a missing file, for a link created meanwhile, and for a socket.
_NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG}


_PATH = "{+path}"


def resource_dir(
    path: str | os.PathLike[str],
    uri_prefix: str,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    hidden: bool = False,
    max_entries: int = MAX_ENTRIES,
    watch: bool = False,
    access: Access | None = None,
) -> ResourceTemplate:
    """Make a resource template for the files of a folder: `server.include(resource_dir("docs", "docs://guide"))`.

    Each file, also a later one, is a resource at `uri_prefix`, a slash and its percent-encoded path. `resources/list`
    has it. UTF-8 text is sent as text, other data as a blob. Symbolic links are followed within the folder.

    Args:
        path: The folder.
        uri_prefix: URI without a slash at its end, such as `docs://guide`.
        name: Name of the template; None takes the name of the folder.
        title: Display name.
        description: Description of the files.
        hidden: Whether files and folders with a name that begins with a dot are served too.
        max_entries: Maximum number of files in lists; the others can still be read.
        watch: Whether subscribed clients are notified of files that are written, added or removed. Needs
            `pip install "mcpkit[watch]"`. A write through a symbolic link notifies of the file itself.
        access: Rules for who may see and read the files; None for every client.

    Returns:
        A component for `include`.

    Raises:
        RegistrationError: There is no such folder, the prefix cannot be part of a URI template, or `watch` needs a
            package that is not installed.
    """
    if watch:
        from importlib.util import find_spec

        if find_spec("watchfiles") is None:
            raise RegistrationError(missing_package("resource_dir: watch=True", "watchfiles", "watch"))
    folder = ResourceDir(path, uri_prefix, hidden=hidden, max_entries=max_entries)
    if description is None:
        description = f"The files of the folder {folder.name}."
    return FolderTemplate(
        folder, name or folder.name, watch=watch, title=title, description=description, access=access
    )


class FolderTemplate(ResourceTemplate):
    """Resource template for the files of a folder.

    Args:
        folder: The folder.
        name: Name of the template.
        watch: Whether subscribed clients are notified of changes.
        options: See `ComponentOptions`.
    """

    entries_inherit = False  # each file has its own media type, and is not the folder

    def __init__(
        self, folder: ResourceDir, name: str, *, watch: bool, **options: Unpack[ComponentOptions]
    ) -> None:
        super().__init__(
            folder.open,
            folder.template.template,
            name=name,
            list_entries=folder.listed,
            watch=folder.watch if watch else None,
            **options,
        )
        self.folder = folder

    def renamed(self, key: str) -> Self:
        """Return a copy with the URIs of another template."""
        twin = super().renamed(key)
        prefix = key.removesuffix(_PATH)
        twin.folder = self.folder.at(prefix if prefix.endswith("://") else prefix[:-1])
        twin.function = twin.folder.open
        twin.list_entries = twin.folder.listed
        if self.watch is not None:
            twin.watch = twin.folder.watch
        twin.written = key
        return twin


class ResourceDir:
    """The files of a folder and their URIs.

    Args:
        path: The folder.
        uri_prefix: URI without a slash at its end.
        hidden: Whether names that begin with a dot count.
        max_entries: Maximum number of files that `listed` returns.

    Raises:
        RegistrationError: There is no such folder, or the prefix cannot be part of a URI template.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        uri_prefix: str,
        *,
        hidden: bool = False,
        max_entries: int = MAX_ENTRIES,
    ) -> None:
        if not os.path.isdir(path):
            raise RegistrationError(f"resource_dir: {os.fspath(path)!r} is not a folder")
        try:
            check_uri(uri_prefix)
        except ValueError as error:
            raise RegistrationError(f"resource_dir: {error}") from None
        if uri_prefix.endswith("/") and not uri_prefix.endswith("://"):
            raise RegistrationError(f"resource_dir: uri_prefix {uri_prefix!r} ends with a slash. Remove it")
        self._root = os.path.realpath(path)
        self._hidden = hidden
        self._max_entries = max_entries
        self._prefix = uri_prefix if uri_prefix.endswith("/") else f"{uri_prefix}/"
        self.name = os.path.basename(self._root) or self._root
        from ..content.uri_templates import UriTemplate

        self.template = UriTemplate(self._prefix + _PATH)

    def at(self, uri_prefix: str) -> ResourceDir:
        """Return the same folder at other URIs."""
        return ResourceDir(self._root, uri_prefix, hidden=self._hidden, max_entries=self._max_entries)

    def uri_of(self, path: str) -> str:
        """Return the URI of a path in the folder, written with slashes."""
        from urllib.parse import quote

        return self._prefix + quote(path)

    def listed(self) -> list[Mapping[str, Any]]:
        """Return the files that exist now as members of `resources/list` (schema, `Resource`), sorted by path.

        At most `max_entries`. A symbolic link to a file of the folder is an entry. A link to a folder is not followed.
        """
        entries: list[Mapping[str, Any]] = []
        for path, status in islice(self._walk(), self._max_entries):
            modified = datetime.fromtimestamp(int(status.st_mtime), timezone.utc)
            last_modified = modified.isoformat().replace("+00:00", "Z")
            mime_type, annotations = media_types.from_name(path), {"lastModified": last_modified}
            own = optional(mimeType=mime_type, size=status.st_size, annotations=annotations)
            entries.append({"uri": self.uri_of(path), "name": path, **own})
        return entries

    def open(self, path: str) -> File:
        """Return the file at a path in the folder.

        Args:
            path: Path in the folder, with slashes.

        Raises:
            ResourceNotFoundError: There is no file at the path, or it may not be served.
            OSError: The file exists and cannot be read.
        """
        parts = self._inside(path)
        if parts is None:
            raise ResourceNotFoundError(self.uri_of(path))
        try:
            descriptor = _open_beneath(self._root, parts)
        except OSError as error:
            if error.errno in _NOT_THERE:
                raise ResourceNotFoundError(self.uri_of(path)) from None
            raise
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ResourceNotFoundError(self.uri_of(path))
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return File(data=file.read(), name=path.rpartition("/")[2])
        finally:
            os.close(descriptor)

    async def watch(self) -> AsyncGenerator[str | None, None]:
        """Yield the URI of each file that is written, added or removed, and None when the list has changed.

        Raises:
            OSError: The folder was removed.
        """
        from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]  # it names trio's types

        async with aclosing(awatch(self._root, watch_filter=None)) as batches:
            async for batch in batches:
                for update in self._updates(batch):
                    yield update

    def _updates(self, batch: set[tuple[FileChange, str]]) -> Iterator[str | None]:
        is_list_changed = False
        for change, name in batch:
            path = os.path.relpath(name, self._root).replace(os.sep, "/")
            is_hidden = any(part.startswith(".") for part in path.split("/"))  # as is "." itself
            if is_hidden and (path == "." or not self._hidden):
                continue
            uri = self.uri_of(path)
            yield uri
            if change.raw_str() != "modified":
                is_list_changed = True
                yield f"{uri}/"  # a folder is moved in one piece, and what lies in it is not named
        if is_list_changed:
            yield None
        if not os.path.isdir(self._root):
            yield self._prefix
            yield None
            problem = "the folder of resource_dir was removed; create it again"
            raise FileNotFoundError(errno.ENOENT, problem, self._root)

    def _inside(self, path: str) -> list[str] | None:
        """Return the parts of the real path below the folder; None if it is outside or hidden."""
        names = path.split("/")
        # On Windows a colon leads to another stream of a file.
        if not {"", ".", ".."}.isdisjoint(names) or (sys.platform == "win32" and ":" in path):
            return None
        try:
            real = os.path.realpath(os.path.join(self._root, *names))
        except ValueError:
            return None
        if not real.startswith(os.path.join(self._root, "")):
            return None
        parts = os.path.relpath(real, self._root).split(os.sep)
        is_hidden = any(part.startswith(".") for part in (*names, *parts))
        return None if is_hidden and not self._hidden else parts

    def _walk(self) -> Iterator[tuple[str, os.stat_result]]:
        waiting = [""]
        while waiting:
            path = waiting.pop()
            if not path or path.endswith("/"):
                waiting += reversed(self._names(path))
                continue
            status = self._status(path)
            if status is not None and stat.S_ISREG(status.st_mode):
                yield path, status

    def _status(self, path: str) -> os.stat_result | None:
        """Return the status of the file at `path`, or None if nothing is served there."""
        try:
            is_reachable = self.template.match(self.uri_of(path)) is not None
        except UnicodeEncodeError:
            # A name that is not UTF-8 has no URI.
            return None
        parts = self._inside(path) if is_reachable else None
        if parts is None:
            return None
        try:
            return os.stat(os.path.join(self._root, *parts), follow_symlinks=False)
        except OSError:
            # It went away since its folder was read.
            return None

    def _names(self, folder: str) -> list[str]:
        """Return the sorted paths of the entries of one folder; paths of folders end with a slash."""
        try:
            with os.scandir(os.path.join(self._root, folder)) as found:
                return sorted(
                    folder + entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "")
                    for entry in found
                    if self._hidden or not entry.name.startswith(".")
                )
        except OSError:
            # The folder went away or cannot be entered: its files are not there for us.
            return []


if sys.platform == "win32":

    def _open_beneath(root: str, parts: list[str]) -> int:
        # Without openat, a link put there after the path was resolved is found by resolving it again.
        path = os.path.join(root, *parts)
        if not os.path.isfile(path):
            raise FileNotFoundError(errno.ENOENT, "not a regular file", path)
        descriptor = os.open(path, os.O_RDONLY | os.O_BINARY | os.O_NOINHERIT)
        try:
            is_same = os.path.samestat(os.fstat(descriptor), os.stat(path))
            if not is_same or os.path.realpath(path) != path:
                problem = "the file was replaced while it was opened; read it again"
                raise FileNotFoundError(errno.ENOENT, problem, path)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

else:

    def _open_beneath(root: str, parts: list[str]) -> int:
        """Open a file for reading, without following links; `parts` must be its real path.

        A file that is not a regular file is opened without blocking. The caller must refuse it.
        """
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
        folder = os.open(root, flags | os.O_DIRECTORY)
        try:
            for part in parts[:-1]:
                inner = os.open(part, flags | os.O_DIRECTORY, dir_fd=folder)
                os.close(folder)
                folder = inner
            return os.open(parts[-1], flags | os.O_NONBLOCK, dir_fd=folder)
        finally:
            os.close(folder)
