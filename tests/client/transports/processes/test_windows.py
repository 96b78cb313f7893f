"""How a command is found on Windows, as far as it can be told elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpkit.client.link.errors import TransportError
from mcpkit.client.transports.processes.windows import find_command


def program(folder: Path, name: str) -> str:
    path = folder / name
    path.touch(mode=0o755)
    return str(path)


def test_a_program_is_found_on_the_path_of_its_environment(tmp_path: Path) -> None:
    found = program(tmp_path, "server.exe")
    assert find_command(["server.exe", "a b", '"%'], {"PATH": str(tmp_path)}) == [found, "a b", '"%']


def test_one_that_is_not_found_is_left_to_the_system() -> None:
    assert find_command(["server.exe"], {"PATH": ""}) == ["server.exe"]


@pytest.mark.parametrize("name", ["npx.cmd", "npx.CMD", "run.bat"])
def test_the_arguments_of_a_batch_file_are_kept_from_the_shell(tmp_path: Path, name: str) -> None:
    found = program(tmp_path, name)
    line = find_command([name, "-y", "https://example.com?a=1&b=2", ""], {"PATH": str(tmp_path)})
    assert line == f'"{found}" "-y" "https://example.com?a=1&b=2" ""'


@pytest.mark.parametrize("argument", ['a"&calc', "%PATH%", "a\nb", "a\rb"])
def test_what_quotes_do_not_keep_from_the_shell_is_refused(tmp_path: Path, argument: str) -> None:
    program(tmp_path, "npx.cmd")
    with pytest.raises(TransportError, match="is a batch file, to which the argument") as raised:
        find_command(["npx.cmd", argument], {"PATH": str(tmp_path)})
    assert not raised.value.may_have_begun
    assert not raised.value.may_pass
