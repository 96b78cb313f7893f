"""Addresses of the public internet, and lookups of host names that clients name."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Sequence
from typing import Any

import httpx2
import pytest

from mcpkit.auth.authority.client_documents import ClientDocuments
from mcpkit.auth.authority.errors import OAuthError
from mcpkit.auth.authority.public_internet import PublicTransport, addresses_of, is_public
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio


@each_row(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
        "100.64.0.1", "192.0.0.8", "192.0.2.1", "192.88.99.1", "198.18.0.1", "224.0.0.1", "240.0.0.1",
        "255.255.255.255", "::1", "::", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "fe80::1",
        "fe80::1%eth0", "fc00::1", "fd12::1", "fec0::1", "ff02::1", "2001:db8::1", "2001::1", "2001:20::1",
        "3fff::1", "5f00::1", "2002:7f00:1::", "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1",
        "64:ff9b:1::8.8.8.8", "100::1", "2001:10::1", "2001:0:7f00:1::", "::7f00:1", "localhost", "",
    ],
)  # fmt: skip
def test_is_public_rejects_special_addresses(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::8.8.8.8"])
def test_is_public_accepts_public_addresses(address):
    assert is_public(address)


async def test_unknown_and_private_names_have_one_error():
    async def unknown(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    async def private(host: str, port: int) -> Sequence[str]:
        return ("10.0.0.1",)

    errors: set[str] = set()
    for resolve in (unknown, private):
        client = httpx2.AsyncClient(transport=PublicTransport(resolve=resolve))
        documents = ClientDocuments(lambda client=client: client)
        with pytest.raises(OAuthError) as caught:
            await documents.find("https://db.internal/x")
        errors.add(f"{caught.value}")
    assert len(errors) == 1


@pytest.mark.limit("names of clients' documents that are looked up")
async def test_lookups_without_answer_are_bounded(monkeypatch):
    answered = threading.Event()
    real = socket.getaddrinfo

    def silent(host: str, *arguments: Any, **options: Any) -> Any:
        if host.endswith(".silent.example"):
            answered.wait(60)
        return real("127.0.0.1", *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    loop = asyncio.get_running_loop()
    waiting = [loop.create_task(addresses_of(f"{each}.silent.example", 443)) for each in range(128)]
    try:
        await asyncio.sleep(0)  # so that each has begun
        with pytest.raises(OSError, match="too many DNS lookups"):
            await addresses_of("client.example", 443)
        assert await loop.getaddrinfo("localhost", 443)
    finally:
        answered.set()
    assert await asyncio.gather(*waiting) == [("127.0.0.1",)] * 128
    assert await addresses_of("client.example", 443) == ("127.0.0.1",)
