"""Start of Python processes that import nothing from their current folder.

`python -m` and `python -c` put the current folder first on `sys.path`. A host that starts a server in the folder of an
open project would execute a `queue.py` of that project in place of Python's own. `-P` exists from Python 3.11 on.

Run as a script, this file does what `-m` and `-c` do, without that folder:

    python .../mcpkit/_utils/python_safe_path.py MODULE [ARGUMENTS]
    python .../mcpkit/_utils/python_safe_path.py -c PROGRAM [ARGUMENTS]
"""

import sys

# Whether Python has put no folder first: `-I`, or `-P` and PYTHONSAFEPATH from Python 3.11 on.
_IS_SAFE = bool(sys.flags.isolated or getattr(sys.flags, "safe_path", False))

if __name__ == "__main__" and not _IS_SAFE:
    del sys.path[0]  # the folder of this file; before any other import, that of __future__ included

import os  # noqa: E402 - which Python has imported; any other would precede `forget_current_folder`


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module as `python -m` does, whatever the current folder has.

    Args:
        module: The module, which has to be importable from anywhere.
        arguments: Its arguments.
    """
    return [sys.executable, os.path.abspath(__file__), module, *arguments]  # noqa: PTH100 - pathlib is slow to import


def mcpkit_command(*arguments: str) -> list[str]:
    """Return the command that runs mcpkit: its console script by absolute path, or else its module.

    Args:
        arguments: The command and its arguments.
    """
    import sysconfig
    from pathlib import Path

    script = Path(sysconfig.get_path("scripts"), "mcpkit.exe" if sys.platform == "win32" else "mcpkit")
    try:
        is_ours = os.fsencode(Path(sys.executable).parent) + os.sep.encode() in script.read_bytes()
    except OSError:
        is_ours = False
    return [str(script), *arguments] if is_ours else module_command("mcpkit", *arguments)


def forget_current_folder() -> None:
    """Remove the folder that `python -m mcpkit` or `python -m mcpkit.compat` has put first on `sys.path`.

    Python itself has imported a few modules of the standard library before this can run.
    """
    if sys.argv[:1] != ["-m"] or _IS_SAFE:
        return
    module = sys.orig_argv[-len(sys.argv)].removeprefix("-m")
    if module.partition(".")[0] == "mcpkit" and sys.path[0] == os.getcwd():  # noqa: PTH109 - as above
        del sys.path[0]


def protect_children() -> None:
    """Make multiprocessing start its processes with this file, as it starts them with `python -c` by itself.

    This holds for the whole process, and also for the resource tracker of multiprocessing. Its children have the same
    `sys.path` as before once they run, since multiprocessing sends them that of their parent.
    """
    from multiprocessing import util

    name = "_args_from_interpreter_flags"  # what stands before `-c` in each of its commands
    flags = getattr(util, name)
    if flags.__module__ != __name__:
        start = os.path.abspath(__file__)  # noqa: PTH100 - as above
        setattr(util, name, lambda: [*flags(), start])


def _main() -> None:
    module, *arguments = sys.argv[1:]
    if module == "-c":
        program, *arguments = arguments
        sys.argv = ["-c", *arguments]
        names = vars(sys.modules["__main__"])
        # As with `-c`: children of this process would import this file as their main module.
        del names["__file__"]
        exec(compile(program, "<string>", "exec"), names)
    else:
        import runpy

        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()


def started_command() -> list[str]:
    """Return the command that started this process, for use from any directory; empty if unknown."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    spec = getattr(main, "__spec__", None)
    if spec is not None:  # python -m name
        name = spec.name.removesuffix(".__main__")
        if name == "mcpkit":
            return mcpkit_command(*sys.argv[1:])
        if spec.parent or file is None:
            return module_command(name, *sys.argv[1:])
    if file is None:  # python -c, or a prompt
        return []
    return [sys.executable, os.path.realpath(file), *sys.argv[1:]]
