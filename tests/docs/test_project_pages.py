"""The pages on the architecture and on errors agree with the code."""

import importlib.util
import re
import sys
from types import ModuleType

import mcpkit.exceptions
from mcpkit._utils import exceptions as codes

from .pages import ROOT
from .test_readme import ASSETS, script

DOCS = ROOT / "docs"
ARCHITECTURE = [
    DOCS / "project" / name
    for name in ("architecture.md", "life-of-a-call.md", "architecture-http.md", "decisions.md")
]
MAX_LINES = 250


def test_architecture_pages_are_short_and_name_existing_files() -> None:
    folders = ("mcpkit", "tests", "bench", "docs")
    files = [path.as_posix() for folder in folders for path in (ROOT / folder).rglob("*.py")]
    faults = []
    for page in ARCHITECTURE:
        text = page.read_text()
        if text.count("\n") > MAX_LINES:
            faults.append(f"{page.name} has more than {MAX_LINES} lines")
        names = set(re.findall(r"`([\w/]+\.py)`", text)) | set(re.findall(r"^([a-z_]+/\S+\.py) ", text, re.M))
        faults += [
            f"{page.name}: {name}"
            for name in sorted(names)
            if not any(path.endswith(f"/{name}") for path in files)
        ]
    assert not faults, "\n".join(faults)


def test_picture_of_packages_is_drawn_from_the_imports() -> None:
    assert (ASSETS / "packages.svg").read_text("utf-8") == script("packages").svg(), (
        "run docs/assets/packages.py"
    )


def test_errors_page_has_every_code_and_exception() -> None:
    page = (DOCS / "reference" / "errors.md").read_text()
    numbers = [str(value) for name, value in vars(codes).items() if name.isupper() and isinstance(value, int)]
    assert "-32700" in numbers
    assert [number for number in numbers if f"| {number} |" not in page] == []
    assert [name for name in mcpkit.exceptions.__all__ if f"| `{name}` |" not in page] == []


def settings_script() -> ModuleType:
    folder = ROOT / "bench" / "house"
    spec = importlib.util.spec_from_file_location("settings_of_house", folder / "settings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


def test_settings_page_has_every_option() -> None:
    options = re.compile(r"^(?:#+ .*|\| `.*?` \|)", re.MULTILINE)
    page = (DOCS / "reference" / "settings.md").read_text()
    assert options.findall(page) == options.findall(settings_script().page()), "run `make house`"


def test_settings_page_has_every_environment_variable() -> None:
    pattern = re.compile(
        r'environ(?:\.get\(|\[)"([A-Z_]+)"|"([A-Z_]+)" (?:not )?in os\.environ|(?:envvar|variable)="([A-Z_]+)"'
        r'|_\w+ = "(MCPKIT_[A-Z_]+)"'
    )
    script = settings_script()
    used = {
        next(filter(None, found.groups()))
        for path in (ROOT / "mcpkit").rglob("*.py")
        for found in pattern.finditer(path.read_text("utf-8"))
    }
    assert "CODEX_HOME" in used
    assert used - set(script.VARIABLES) - script.INTERNAL - {"TOKEN"} == set(), "TOKEN is an example"
