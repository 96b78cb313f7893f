"""A bundle as a file: a ZIP archive that is the same, byte for byte, whenever the same goes into it."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

_WHEN = (1980, 1, 1, 0, 0, 0)
"""The earliest date that a zip archive can store."""


def write_archive(path: Path, content: Mapping[str, bytes | Path]) -> str:
    """Write an archive in the place of one that may be there, and return its SHA-256 in hex digits.

    Args:
        path: Where to.
        content: Bytes, or the file that has them, by their names with slashes.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with (
            os.fdopen(descriptor, "wb") as file,
            ZipFile(file, "w", ZIP_DEFLATED, compresslevel=9) as archive,
        ):
            for each in sorted(content):
                source = content[each]
                entry = ZipInfo(each, _WHEN)
                entry.compress_type = ZIP_DEFLATED
                is_program = isinstance(source, Path) and os.access(source, os.X_OK)
                entry.external_attr = (0o100755 if is_program else 0o100644) << 16
                archive.writestr(entry, source.read_bytes() if isinstance(source, Path) else source)
        digest = hashlib.sha256(Path(name).read_bytes()).hexdigest()
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return digest
