import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

import anyio

from mcpkit import CacheHint, Context, Server, ServerOptions

TTL = 600  # seconds


@dataclass
class Rates:
    """Exchange rates, loaded at most once in `TTL` seconds."""

    values: dict[str, float] = field(default_factory=dict)
    expires: float = 0.0
    loads: int = 0
    lock: anyio.Lock = field(default_factory=anyio.Lock)

    async def get(self) -> dict[str, float]:
        async with self.lock:  # simultaneous calls load once
            if time.monotonic() >= self.expires:
                await anyio.sleep(0.05)  # stands for a slow API
                self.values = {"NOK": 11.6, "USD": 1.08}
                self.expires = time.monotonic() + TTL
                self.loads += 1
            return self.values


@asynccontextmanager
async def lifespan(server: Server) -> AsyncGenerator[Rates]:
    yield Rates()


server = Server(
    "rates",
    version="1.0.0",
    lifespan=lifespan,
    options=ServerOptions(cache={"tools/list": CacheHint(ttl=3600)}),
)


@server.tool(annotations={"readOnlyHint": True})
async def convert(
    amount: float, currency: Literal["NOK", "USD"], ctx: Context[Rates]
) -> str:
    """Convert euros to another currency."""
    rates = await ctx.state.get()
    return f"{amount * rates[currency]:.2f} {currency}"


@server.resource("rates://all", cache=CacheHint(ttl=TTL, scope="public"))
async def all_rates(ctx: Context[Rates]) -> dict[str, float | int]:
    """All rates, and how often they were loaded."""
    return {**await ctx.state.get(), "loads": ctx.state.loads}


if __name__ == "__main__":
    server.run()
