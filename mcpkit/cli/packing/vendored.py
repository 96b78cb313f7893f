"""Distributions that are installed here, with all that they need: what a server has along to need no network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ..exit_status import CommandError, Status


class VendoredFile(NamedTuple):
    """A file of a distribution.

    Attributes:
        path: Where it is on this machine.
        name: Where it belongs below the folder of libraries, with slashes.
    """

    path: Path
    name: str


def needed(requirements: Iterable[str]) -> list[Distribution]:
    """Return the distributions that requirements ask for, and those that these ask for, as they are installed here.

    Args:
        requirements: Names with versions, extras and markers.

    Raises:
        CommandError: One of them is not installed here, or in another version.
    """
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(text, frozenset({""}), "the server") for text in requirements]
    while waiting:
        text, extras, dependent = waiting.pop()
        try:
            wanted = Requirement(text)
        except InvalidRequirement as error:
            raise CommandError(
                f"{dependent} requires {text!r}, which is not a valid requirement: {error}"
            ) from None
        if wanted.marker is not None and not any(
            wanted.marker.evaluate({"extra": extra}) for extra in extras
        ):
            continue
        name = canonicalize_name(wanted.name)
        asked = frozenset({"", *wanted.extras})
        if (name, asked) in seen:
            continue
        seen.add((name, asked))
        try:
            installed = found.setdefault(name, distribution(wanted.name))
        except PackageNotFoundError:
            raise CommandError(
                f"{dependent} requires {wanted}, which is not installed. Install it and try again",
                Status.NO_SUCH_THING,
            ) from None
        if not wanted.specifier.contains(installed.version, prereleases=True):
            raise CommandError(
                f"{dependent} requires {wanted}, but {installed.version} is installed. Install a matching version"
            )
        waiting += [(each, asked, name) for each in installed.requires or ()]
    return [found[name] for name in sorted(found)]


def files_of(installed: Distribution) -> Iterator[VendoredFile]:
    """Yield the files of a distribution: its modules and its metadata, no scripts and nothing compiled by Python."""
    modules = set[str]()
    for file in installed.files or ():
        path = Path(str(installed.locate_file(file)))
        name = file.as_posix()
        if name.endswith((".pyc", ".pth")) or name.startswith(("../", "__editable__")) or not path.is_file():
            continue
        modules.add(name.partition("/")[0])
        yield VendoredFile(path, name)
    if all(
        name.endswith((".dist-info", ".egg-info")) for name in modules
    ):  # its modules lie where they are written
        yield from _edited(installed)


def is_compiled(files: Iterable[VendoredFile]) -> bool:
    """Say whether some of the files run on this platform and version of Python alone."""
    return any(file.name.endswith((".so", ".pyd", ".dylib", ".dll")) for file in files)


def _edited(installed: Distribution) -> Iterator[VendoredFile]:
    name = installed.metadata["Name"].replace("-", "_")
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise CommandError(
            f"the modules of the editable distribution {name} cannot be found. Install it without --editable"
        )
    if spec.submodule_search_locations is None:
        yield VendoredFile(Path(spec.origin), Path(spec.origin).name)
        return
    folder = Path(spec.origin).parent
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield VendoredFile(path, f"{name}/{path.relative_to(folder).as_posix()}")
