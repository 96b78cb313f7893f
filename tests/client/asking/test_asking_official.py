"""Servers of the official SDK: what they ask, and what their tools answer."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Client, FormRequest, InvalidResultError, Sampler, SampleRequest, ToolError, UrlRequest
from tests.helpers import official_asking_server
from tests.helpers.official_asking_server import make_server
from tests.helpers.serving import in_thread

pytestmark = pytest.mark.anyio

Make = Callable[..., Any]


@pytest.fixture(params=["stdio 2025-11-25", "stdio 2026-07-28", "http 2025-11-25", "http 2026-07-28"])
def make(request: pytest.FixtureRequest) -> Make:
    transport, _, revision = request.param.partition(" ")

    @asynccontextmanager
    async def client(**options: Any) -> AsyncIterator[Client]:
        if transport == "stdio":
            command = [sys.executable, str(Path(official_asking_server.__file__))]
            async with Client(command, revision=revision, **options) as made:
                yield made
        else:
            with in_thread(make_server().streamable_http_app()) as origin:
                async with Client(f"{origin}/mcp", revision=revision, **options) as made:
                    yield made

    return client


async def test_forms_models_and_roots_are_answered(make: Make) -> None:
    forms: list[FormRequest] = []

    async def fill_in(form: FormRequest) -> dict[str, Any]:
        forms.append(form)
        return {"city": "Rome"}

    def speak(request: SampleRequest) -> str:
        return request.text.upper()

    async with make(elicit=fill_in, sample=speak, roots=["/srv"]) as client:
        assert (await client.call("plan")).text == "Rome 3 food WHAT ABOUT ROME? ['file:///srv']"
    (form,) = forms
    assert form.message == "Where to?"
    assert [(field.name, field.kind, field.default) for field in form.fields] == [
        ("city", "string", None),
        ("days", "integer", 3),
        ("style", "choice", "food"),
    ]


async def test_what_does_not_fit_is_not_sent(make: Make) -> None:
    async with make(elicit=lambda form: {"city": 5}, sample=Sampler(lambda request: ""), roots=[]) as client:
        with pytest.raises(ValueError, match="city: expected a string"):
            await client.call("plan")


async def test_a_no_is_a_no(make: Make) -> None:
    async with make(elicit=FormRequest.decline, sample=lambda request: "", roots=[]) as client:
        assert (await client.call("plan")).is_error


async def test_pages_are_shown() -> None:
    seen: list[str] = []

    def visit(page: UrlRequest) -> bool:
        seen.append(page.url)
        return True

    with in_thread(make_server().streamable_http_app()) as origin:
        async with Client(f"{origin}/mcp", revision="2025-11-25", elicit_url=visit) as client:
            assert (await client.call("visit")).text == "accept"
            assert (await client.call("files")).text == "a.txt"
    assert seen == ["https://example.com/1", "https://example.com/2"]


@dataclass
class Bill:
    items: list[str]
    total: float
    tip: float | None = None


async def test_tools_are_functions_and_results_are_values(make: Make) -> None:
    async with make() as client:
        tools = await client.tools()
        assert await tools["bill"](items=["tea", "bun"], tip=1.5) == {
            "items": ["tea", "bun"], "total": 19.0, "tip": 1.5,
        }  # fmt: skip
        assert repr(tools["bill"]) == "<tool bill(*, items: list, tip: float | None = None, **arguments)>"
        assert await tools["count"]() == 2
        assert await client.call("bill", {"items": ["tea"]}, into=Bill) == Bill(["tea"], 9.5)
        assert await client.call("count", into=int) == 2
        with pytest.raises(InvalidResultError, match="bill has answered is no int"):
            await client.call("bill", {"items": []}, into=int)
        with pytest.raises(ToolError, match="items"):
            await tools["bill"](items=5)
