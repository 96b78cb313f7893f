"""README.md: its links, which PyPI needs as absolute URLs, and its pictures."""

import html
import re
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import pytest

from .pages import ROOT

ASSETS = ROOT / "docs" / "assets"
REPOSITORY = re.compile(
    r"https://(?:github\.com/mcpkit/mcpkit/(?:blob|tree)|raw\.githubusercontent\.com/mcpkit/mcpkit)/main/(.*)"
)


def script(name: str) -> ModuleType:
    spec = spec_from_file_location(f"docs_assets_{name}", ASSETS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_readme_links_are_absolute_and_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text("utf-8"))
    faults = [link for link in links if not link.startswith("https://")]
    for link in links:
        path = REPOSITORY.fullmatch(link)
        if path is not None and not (ROOT / path[1]).exists():
            faults.append(link)
    assert faults == []
    assert any(REPOSITORY.fullmatch(link) for link in links)


def test_benchmark_pictures_are_drawn_from_the_tables() -> None:
    benchmark = script("benchmark")
    for name, panels in (("benchmark.svg", benchmark.PANELS), ("performance.svg", benchmark.MORE)):
        assert (ASSETS / name).read_text("utf-8") == benchmark.svg(panels), "run docs/assets/benchmark.py"


@pytest.mark.long
def test_terminal_picture_shows_the_output_of_its_commands() -> None:
    terminal = script("terminal")
    picture = (ASSETS / "terminal.svg").read_text("utf-8")
    shown = html.unescape("".join(re.findall(r"<text [^>]*>([^<]*)</text>", picture))).replace("\xa0", " ")
    for command, output in terminal.session():
        printed = re.sub(r"\x1b\[[\d;]*m", "", output)
        for line in (command, *printed.split("\n")):
            words = "".join(line.split())
            assert words in "".join(shown.split()), f"run docs/assets/terminal.py; missing: {line}"
