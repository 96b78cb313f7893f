"""Files of SQLite on disks of the network are refused, where the system tells which they are."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from mcpkit import Sqlite
from mcpkit.state import disks
from mcpkit.state.disks import network_of
from tests.helpers.engines import done


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on a disk of the network, as far as Linux tells, with a blank in its name."""
    place = tmp_path / "on the network"
    place.mkdir()
    told = tmp_path / "mountinfo"
    told.write_text(
        "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
        "what is no line\n"
        f"50 27 0:50 / {place.as_posix().replace(' ', chr(92) + '040')} rw,relatime shared:1 - nfs4 nas:/x rw\n"
        f"51 50 0:51 / {place.as_posix().replace(' ', chr(92) + '040')}/local rw - xfs /dev/vdb rw\n"
    )
    monkeypatch.setattr(disks, "_MOUNTS", told)
    return place


@pytest.mark.skipif(os.name == "nt", reason="its paths are others")
def test_the_disk_is_that_of_the_nearest_mount(mount: Path, tmp_path: Path) -> None:
    assert network_of(mount / "a.db") == "nfs4"
    assert network_of(mount / "folder" / "a.db") == "nfs4"
    assert network_of(mount / "local" / "a.db") is None
    assert network_of(mount / "localised.db") == "nfs4"
    assert network_of(mount.with_name("on the network too") / "a.db") is None
    (tmp_path / "link").symlink_to(mount)
    assert network_of(tmp_path / "link" / "a.db") == "nfs4"


@pytest.mark.parametrize(
    "kind", ["nfs", "cifs", "smb3", "9p", "fuse.sshfs", "ext4", "tmpfs", "overlay", "fuse.lxcfs"]
)
def test_what_is_mounted_last_is_what_is_there(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "mountinfo"
    told.write_text(f"1 0 0:1 / / rw - ext4 a rw\n2 1 0:2 / / rw - {kind} b rw\n")
    monkeypatch.setattr(disks, "_MOUNTS", told)
    is_local = kind in {"ext4", "tmpfs", "overlay", "fuse.lxcfs"}
    assert network_of(Path("/a.db").absolute()) == (None if is_local else kind)


def test_where_the_system_does_not_tell_it_is_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "_MOUNTS", tmp_path / "none")
    assert network_of(tmp_path / "a.db") is None


@pytest.mark.skipif(os.name == "nt", reason="its paths are others")
def test_a_file_on_the_network_is_refused_with_what_to_do(mount: Path) -> None:
    with closing(Sqlite(mount / "shared.db")) as shared:
        for use in (shared.claim("a", 60), shared.read("a"), shared.listening()):
            with pytest.raises(
                OSError, match=r"of the network \(nfs4\).*: name a file on a disk of this machine"
            ):
                done(use)
        assert shared.home == ""
    assert list(mount.iterdir()) == []
    with closing(Sqlite(mount / "local.db")) as shared, pytest.raises(OSError, match="nfs4"):
        done(shared.claim("a", 60))
    (mount / "local").mkdir()
    with closing(Sqlite(mount / "local" / "shared.db")) as shared:
        assert done(shared.claim("a", 60))


# What outlives a loss of power


@pytest.mark.parametrize(("synchronous", "level"), [(None, 1), ("normal", 1), ("full", 2)])
def test_each_change_waits_for_the_disk_where_that_is_wanted(
    synchronous: str | None, level: int, path: Path
) -> None:
    options = {} if synchronous is None else {"synchronous": synchronous}
    with closing(Sqlite(path, **options)) as shared:  # type: ignore[arg-type]  # as it is parametrised
        for _ in range(2):
            assert done(shared._database.rows("PRAGMA synchronous", ())) == [(level,)]
            shared.close()


@pytest.mark.parametrize("synchronous", ["FULL", "off", "", 2, True, None])
def test_what_says_nothing_of_that_is_refused(synchronous: object, path: Path) -> None:
    with pytest.raises(ValueError, match="synchronous must be 'normal' or 'full', got"):
        Sqlite(path, synchronous=synchronous)  # type: ignore[arg-type]  # that is what is tested
