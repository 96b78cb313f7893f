"""Detection of network file systems on Linux."""

from __future__ import annotations

import os
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")

_NETWORK = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "gpfs",
        "lustre",
        "nfs",
        "nfs4",
        "orangefs",
        "smb3",
        "smbfs",
        "vboxsf",
        "fuse.blobfuse2",
        "fuse.cephfs",
        "fuse.davfs",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.juicefs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
    }
)
"""Linux names of file systems with locks and shared memory that do not work between machines."""


def network_of(path: Path) -> str | None:
    """Return the kind of network file system of a file, which may not exist yet, such as `nfs4`.

    Returns:
        None for a local disk, and on systems other than Linux.
    """
    try:
        lines = os.fsdecode(_MOUNTS.read_bytes()).splitlines()
    except OSError:
        return None
    file, kind, longest = os.path.realpath(path), "", ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        place = _unescaped(fields[4])
        # The last of several at one place is the one that is seen.
        if len(place) >= len(longest) and os.path.commonpath((place, file)) == place:
            longest, kind = place, after.split(" ")[0]
    return kind if kind in _NETWORK else None


def _unescaped(text: str) -> str:
    """Return a path without the octal escapes of `/proc`."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
