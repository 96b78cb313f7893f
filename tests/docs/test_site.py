"""The built site, as its readers meet it: in a browser, and as agents read it."""

import fcntl
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from tests.helpers.browser import NAMES
from tests.helpers.node import node_search_path

from .pages import ROOT

pytestmark = pytest.mark.timeout(600)


SITE = ROOT / "site"

SEARCHED = {
    "elicit": "guides/elicitation/",
    "ctx.elicit": "guides/elicitation/",
    "systemd": "cookbook/systemd/",
    "docker": "cookbook/docker/",
    "progress": "guides/progress-and-logging/",
    "401": "project/faq/",
    "langchain": "project/faq/",
    "pydantic-ai": "project/faq/",
    "OpenAPI": "project/faq/",
    "image": "guides/rich-content/",
    "timeout": "guides/timeouts-and-cancellation/",
    "cancel": "guides/timeouts-and-cancellation/",
    "Redis": "guides/redis/",
    "workers": "guides/deploy/",
    "nginx": "project/faq/",
    "Lambda": "cookbook/aws-lambda/",
    "Kubernetes": "cookbook/kubernetes/",
    "FastAPI": "guides/mount/",
    "mount": "guides/mount/",
    "CORS": "guides/security/",
    "Origin": "guides/security/",
    "session": "guides/sessions/",
    "task": "guides/tasks/",
    "scope": "guides/scopes/",
    "token": "guides/opaque-and-static-tokens/",
    "inspector": "guides/debug/",
    "Cursor": "guides/hosts/cursor/",
    "ChatGPT": "guides/hosts/chatgpt/",
    "pagination": "concepts/registry-and-changes/",
    "migrate": "guides/migrate-automatically/",
}
"""Words that readers search for, with a page that has to be among the first three hits."""


def is_current() -> bool:
    """Return whether the site has been built, by `make docs` or another worker, since its sources changed."""
    index = SITE / "llms.txt"
    sources = [ROOT / "mkdocs.yml", *(ROOT / "docs").rglob("*.*"), *(ROOT / "mcpkit").rglob("*.py")]
    return index.exists() and index.stat().st_mtime > max(source.stat().st_mtime for source in sources)


@pytest.fixture(scope="module")
def site() -> Path:
    """The site as `make docs` builds it; it takes a minute of the processor, so that it is built only once."""
    pytest.importorskip("mkdocs")
    with (ROOT / "mkdocs.yml").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_current():
            done = subprocess.run(
                [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"],
                cwd=ROOT,
                env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
    return SITE


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def paths(site: Path) -> list[str]:
    pages = [page.relative_to(site).parent.as_posix() for page in sorted(site.rglob("index.html"))]
    return ["" if page == "." else f"{page}/" for page in pages]


class Links(HTMLParser):
    """Links and anchors of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.anchors |= {str(attributes[key]) for key in ("id", "name") if attributes.get(key)}
        self.links += [str(attributes[key]) for key in ("href", "src") if attributes.get(key)]


def test_site_links_lead_to_existing_pages(site: Path) -> None:
    pages = {path: Links(site / path / "index.html") for path in paths(site)}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(urljoin(f"http://site/{path}", link))
            if parts.netloc != "site":
                continue
            target = unquote(parts.path).lstrip("/")
            if target in pages:
                if parts.fragment and unquote(parts.fragment) not in pages[target].anchors:
                    broken.append((path, link))
            elif not (site / target).is_file():
                broken.append((path, link))
    assert broken == []


def test_llms_txt_lists_every_page_as_text(site: Path) -> None:
    index = (site / "llms.txt").read_text()
    assert index.startswith("# mcpkit\n")
    attributes = re.findall(r"\]\((?:https?://[^/)]+/)?([^)]*\.md)\)", index)
    assert len(attributes) == len(set(attributes))
    assert {page.removesuffix("index.md") for page in attributes} == set(paths(site))
    for page in attributes:
        text = (site / page).read_text()
        assert text.startswith("# "), page
        assert "<div" not in text, page


@pytest.fixture
def observed(site: Path, url: str) -> dict[str, Any]:
    executable = next(filter(None, map(shutil.which, NAMES)), None)
    if executable is None:
        pytest.skip("there is no browser: apt-get install chromium")
    if not (ROOT / "node_modules" / "playwright-core").is_dir():
        pytest.skip("playwright-core is not installed: make setup")
    done = subprocess.run(
        [
            "node",
            str(Path(__file__).with_name("site.mjs")),
            executable,
            url,
            json.dumps([*SEARCHED]),
            *paths(site),
        ],
        env={**os.environ, "PATH": node_search_path()},
        capture_output=True,
        text=True,
        check=False,
        timeout=570,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_site_in_a_browser(observed: dict[str, Any]) -> None:
    assert observed["elsewhere"] == [], "nothing is loaded from elsewhere"
    assert observed["missing"] == []
    assert observed["tooWide"] == [], "nothing is wider than a telephone of 360 pixels, or a screen of 1,440"
    assert observed["code"]["y"] < 800, "the first example is observed without scrolling"
    found = observed["hits"]
    assert {word: found[word] for word, page in SEARCHED.items() if page not in found[word]} == {}
    assert observed["scheme"]["name"] == "slate"
    dark, light = (
        sum(map(int, re.findall(r"\d+", observed["scheme"][key])[:3])) for key in ("background", "color")
    )
    assert dark < 200 < light


def test_installation_lists_every_extra() -> None:
    page = (ROOT / "docs" / "learn" / "installation.md").read_text()
    extras = re.search(
        r"^\[project\.optional-dependencies\]\n(.*?)^\[", (ROOT / "pyproject.toml").read_text(), re.M | re.S
    )
    assert extras is not None
    names = set(re.findall(r"^([\w-]+) = \[", extras[1], re.M)) - {"dev"}
    assert names == set(re.findall(r"^\| `(\w+)` \|", page, re.M))


def test_reference_pages_name_existing_objects() -> None:
    missing = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for name in re.findall(r"^::: (\S+)", page.read_text(), re.M):
            try:
                pkgutil.resolve_name(name)
            except (AttributeError, ImportError):
                missing.append((page.name, name))
    assert missing == []
