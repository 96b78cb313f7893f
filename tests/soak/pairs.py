"""Pairs of principals at two servers with one file: no response to one of them names the other.

    python tests/soak/pairs.py [pairs] [seed]    10,000 pairs with seed 1 by default

Each principal opens sessions, some before it has a token, subscribes, answers questions and reads, at either
server, and tries to use the sessions and states of the other. Tokens change, and servers restart meanwhile.
In responses, `who=<...>` names the principal.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2])]

from mcpkit import Access, CacheHint, Context, Limits, Principal, Scope, Server, Timeouts  # noqa: E402
from mcpkit.auth import AccessToken, TokenVerifier  # noqa: E402
from mcpkit.identity.principals_and_scopes import client as client_by_itself  # noqa: E402
from mcpkit.identity.principals_and_scopes import user  # noqa: E402
from mcpkit.storage import Sqlite  # noqa: E402
from tests.helpers import raw_client  # noqa: E402
from tests.helpers.pipe import message  # noqa: E402
from tests.helpers.servers.protected import Lenient  # noqa: E402
from tests.helpers.serving import app_of  # noqa: E402

SECRET = "a secret of some length"
SCOPES = {
    "notes:read": Scope("Read"),
    "notes:write": Scope("Write", implies=["notes:read"]),
    "odd": Scope("Odd"),
}
ISSUERS = ("https://one.example", "https://two.example")
ANONYMOUS = "anonymous"


def mark_of(who: Principal) -> str:
    """The name of a principal in responses, which differs for each principal and client."""
    return ANONYMOUS if who.id is None else f"{who.id} by {who.client_id}"


def box_of(id_: str | None) -> str:
    """The name of the inbox of a principal, the same for all its clients."""
    return hashlib.sha256(str(id_).encode()).hexdigest()[:16]


class Readable(TokenVerifier):
    """Accepts tokens that are JSON with the principal."""

    issuers = ISSUERS

    async def verify(self, token: str, audience: str) -> AccessToken:
        issuer, subject, client_id, scopes, _ = json.loads(base64.urlsafe_b64decode(token))
        if subject is None:
            return AccessToken(client_by_itself(issuer, client_id, scopes))
        return AccessToken(user(issuer, subject, scopes, client_id=client_id))


def make_server(shared: Sqlite) -> Server:
    """Return a server that names the caller in everything that it sends."""
    server = Server("pairs", secret_key=SECRET, storage=shared, auth=Readable(), scopes=SCOPES)

    @server.tool(access=Access(allow_anonymous=True))
    async def whoami(ctx: Context) -> str:
        return f"who=<{mark_of(ctx.principal)}>"

    @server.tool
    async def ask(ctx: Context) -> str:
        question = f"Who is who=<{mark_of(ctx.principal)}>?"
        return f"{(await ctx.elicit(question, str)).value} who=<{mark_of(ctx.principal)}>"

    @server.tool(access=Access(visible=lambda who: "odd" in who.scopes))
    async def odd() -> None: ...

    for issuer in ISSUERS:
        access = Access(visible=lambda who, issuer=issuer: who.issuer == issuer)
        server.tool(lambda: None, name=f"of_{issuer[8:11]}", access=access)

    @server.resource("inbox://mine", access=Access(allow_anonymous=True), cache=CacheHint(60))
    def own(ctx: Context) -> str:
        return f"who=<{mark_of(ctx.principal)}>"

    def entries(who: Principal) -> Iterable[dict[str, Any]]:
        return [{"uri": f"inbox://{box_of(who.id)}", "name": f"who=<{mark_of(who)}>"}]

    @server.resource("inbox://{box}", list_entries=entries)
    def inbox(box: str, ctx: Context) -> str:
        return f"who=<{mark_of(ctx.principal)}>"

    return server


URL = "https://mcp.example.com/mcp"
MARK = re.compile(r"who=<([^>]*)>")
BOX = re.compile(r"inbox://([0-9a-f]+)")
ASKING = {"capabilities": {"elicitation": {"form": {}}}}
AT_ONCE = 24
"""Pairs that do so at the same time."""


class LeakedError(AssertionError):
    """A response names another principal."""


class _Unkept(list[raw_client.Answer]):
    """A list that stays empty."""

    def append(self, answer: raw_client.Answer, /) -> None: ...


class World:
    """Two servers with one file; everything is drawn from the seed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.draw = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.clients: list[raw_client.Client] = []
        self.servers: list[Server] = []
        self._folder = folder
        self._stacks: list[AsyncExitStack] = []

    async def __aenter__(self) -> World:
        for number in range(2):
            await self._start(number)
        return self

    async def __aexit__(self, *_: object) -> None:
        for stack in self._stacks:
            await stack.aclose()

    async def _start(self, number: int) -> None:
        shared, stack = Sqlite(self._folder / "pairs.db"), AsyncExitStack()
        server = make_server(shared)
        options = {"timeouts": Timeouts(shutdown=0), "limits": Limits(max_sessions=100_000)}
        app = app_of(server, public_url=URL, allowed_hosts=["localhost"], **options)
        await stack.enter_async_context(raw_client.lifespan(app))
        client = raw_client.Client(app, self._folder)
        client.opened = _Unkept()
        self.clients[number : number + 1], self.servers[number : number + 1] = [client], [server]
        self._stacks[number : number + 1] = [stack]

    async def restart(self, number: int) -> None:
        """End a worker, and start another one in its place."""
        self.counts["restarts"] += 1
        await self._stacks[number].aclose()
        await self._start(number)

    def any(self) -> raw_client.Client:
        """Return one of the workers."""
        return self.draw.choice(self.clients)

    async def run(self, pairs: int) -> None:
        """Let so many pairs live."""
        for start in range(0, pairs, AT_ONCE):
            batch = [Pair(self, number) for number in range(start, min(start + AT_ONCE, pairs))]
            await asyncio.gather(*(pair.begin() for pair in batch))
            for number in range(2):
                if self.draw.random() < 0.5:
                    await self.restart(number)
            await asyncio.gather(*(pair.continue_() for pair in batch))
            self.counts["pairs"] += len(batch)


class Actor:
    """One principal of a pair; `subject` is None for a client without a user."""

    def __init__(self, world: World, issuer: str, subject: str | None, client_id: str) -> None:
        self.world = world
        self.claims = (issuer, subject, client_id)
        self.issuer = issuer
        self.scopes: list[str] = []
        self.tokens = 0
        make = user(issuer, subject, client_id=client_id) if subject else client_by_itself(issuer, client_id)
        self.id, self.mark, self.box = make.id, mark_of(make), box_of(make.id)
        self.session: raw_client.Session | None = None
        self.is_anonymous = False
        self.state: str | None = None

    @property
    def token(self) -> dict[str, str]:
        """The header of its latest token."""
        text = json.dumps([*self.claims, self.scopes, self.tokens])
        return {"authorization": "Bearer " + base64.urlsafe_b64encode(text.encode()).decode()}

    def renew(self) -> None:
        """Get another token, perhaps one that grants something else."""
        self.tokens += 1
        self.world.counts["tokens"] += 1
        if self.world.draw.random() < 0.5:
            self.scopes = self.world.draw.sample([*SCOPES], self.world.draw.randrange(3))

    # What it does

    async def check_response(self, answer: raw_client.Answer, *, mark: str | None = None) -> str:
        """Return the text of a response; it must name no other principal."""
        await answer.whole()
        self.world.counts["requests"] += 1
        return self.check(answer.body.decode(), self.mark if mark is None else mark)

    def check(self, text: str, mark: str) -> str:
        """Raise LeakedError if a text names another principal."""
        if others := set(MARK.findall(text)) - {mark}:
            raise LeakedError(f"{mark} received data of {others}: {text[:500]}")
        boxes = {each for each in BOX.findall(text) if not each.startswith(self.box)}
        if mark == self.mark and boxes:
            raise LeakedError(f"{mark} received data of {boxes}: {text[:500]}")
        return text

    async def open(self, *, anonymous: bool) -> None:
        """Open a session."""
        client, token = self.world.any(), {} if anonymous else self.token
        answer = client.post(raw_client.initialize(**ASKING), token, judge=Lenient(client))
        await self.check_response(answer)
        assert answer.status == 200, answer.body
        self.session = raw_client.Session(
            client, "2025-11-25", answer.headers["mcp-session-id"], answer.judge
        )
        self.is_anonymous = anonymous
        ready = message("notifications/initialized", None, None)
        assert (await self.at().post(ready, token).whole()).status == 202
        self.world.counts["anonymous sessions" if anonymous else "sessions"] += 1

    def at(self) -> raw_client.Session:
        """Return its session at one of the workers."""
        assert self.session is not None
        return self.session.at(self.world.any())

    async def whoami(self) -> None:
        """Call a tool, in either era."""
        if self.session is not None and self.world.draw.random() < 0.6:
            answer = self.at().call_tool("whoami", headers=self.token)
        else:
            answer = self._ask("tools/call", {"name": "whoami", "arguments": {}})
        assert f"who=<{self.mark}>" in await self.check_response(answer), (answer.status, answer.body)

    async def read_lists(self) -> None:
        """Request the tools, the resources and a resource of the principal."""
        tools = json.loads(await self.check_response(self._ask("tools/list", {})))["result"]
        expected = ["whoami", "ask", *(["odd"] if "odd" in self.scopes else []), f"of_{self.issuer[8:11]}"]
        assert [each["name"] for each in tools["tools"]] == expected
        resources = await self.check_response(self._ask("resources/list", {}))
        content = await self.check_response(self._ask("resources/read", {"uri": "inbox://mine"}))
        for text in (resources, content):
            assert f"who=<{self.mark}>" in text
            assert '"cacheScope":"private"' in text.replace(" ", "")

    async def begin_question(self) -> None:
        """Begin a request of the stateless era that has to be gone on with."""
        answer = self._ask("tools/call", {"name": "ask", "arguments": {}})
        self.state = json.loads(await self.check_response(answer))["result"]["requestState"]

    def answer(self, state: str) -> raw_client.Answer:
        """Go on with a request."""
        answers = {"requestState": state, "inputResponses": {"#1": raw_client.accept("me")}}
        return self._ask("tools/call", {"name": "ask", "arguments": {}, **answers})

    def _ask(self, method: str, params: dict[str, Any]) -> raw_client.Answer:
        client = self.world.any()
        answer = client.ask(method, params, headers=self.token, meta=raw_client.DECLARED)
        answer.judge = Lenient(client)
        return answer

    async def listen(self) -> raw_client.Answer:
        """Open a stream of its session."""
        stream = await self.at().listen(headers=self.token).head()
        assert stream.status == 200, stream.body
        return stream


def _has_id(id_: str | None, who: Principal) -> bool:
    return who.id == id_


class Pair:
    """Two principals that differ in the user, the issuer, the client, or the kind."""

    def __init__(self, world: World, number: int) -> None:
        draw = self.draw = world.draw
        self.world = world
        issuer, other_issuer = draw.sample(ISSUERS, 2)
        name, app = f"s{number}", f"c{number}"
        # What they are is alike where it may be.
        pairs: list[tuple[Any, Any]] = [
            ((issuer, name, app), (issuer, f"{name}x", app)),
            ((issuer, name, app), (other_issuer, name, app)),
            ((issuer, name, app), (issuer, name, f"{app}x")),
            ((issuer, app, app), (issuer, None, app)),
            ((issuer, None, app), (other_issuer, None, app)),
        ]
        self.both = [Actor(world, *claims) for claims in draw.choice(pairs)]
        draw.shuffle(self.both)

    async def begin(self) -> None:
        """Open sessions, and begin what is gone on with after a restart."""
        for each in self.both:
            await each.open(anonymous=self.draw.random() < 0.4)
            await each.begin_question()
        await self._some_steps()

    async def continue_(self) -> None:
        """Go on with it, at other workers and with other tokens."""
        for each in self.both:
            each.renew()
        await self._claim_anonymous_sessions()
        await self._some_steps()
        await self._use_sessions_of_the_other()
        await self._continue_questions()
        await self._listen()
        for each in self.both:
            if self.draw.random() < 0.5:
                client = self.world.any()
                session = each.at()
                ended = await client.open("DELETE", headers=session.headers(each.token)).whole()
                assert ended.status == 204

    async def _some_steps(self) -> None:
        for each in self.both:
            if not each.is_anonymous:
                await each.whoami()
            await each.read_lists()

    async def _claim_anonymous_sessions(self) -> None:
        """Let both adopt an anonymous session at once: exactly one of them gets it."""
        for each in self.both:
            if not each.is_anonymous:
                continue
            assert each.session is not None
            before = each.at().call_tool("whoami", headers={})
            assert f"who=<{ANONYMOUS}>" in await each.check_response(before, mark=ANONYMOUS)
            answers = [each.at().call_tool("whoami", headers=who.token) for who in self.both]
            for who, answer in zip(self.both, answers, strict=True):
                await who.check_response(answer)
            winners = [who for who, answer in zip(self.both, answers, strict=True) if answer.status == 200]
            assert len(winners) == 1, [answer.status for answer in answers]
            assert (await each.at().call_tool("whoami", headers={}).whole()).status == 404
            each.is_anonymous = False
            self.world.counts["adoptions"] += 1
            if winners != [each]:
                await each.open(anonymous=False)

    async def _use_sessions_of_the_other(self) -> None:
        """Come with the other's id in all ways."""
        for own, other in (self.both, self.both[::-1]):
            session = other.at()
            for token in (own.token, {}):
                intrusions = [
                    session.call_tool("whoami", headers=token),
                    session.listen(headers=token),
                    session.client.open("DELETE", headers=session.headers(token)),
                ]
                for each in intrusions:
                    await own.check_response(each)
                    assert each.status == 404, (each.status, each.body)
                    self.world.counts["intrusions"] += 1

    async def _continue_questions(self) -> None:
        for own, other in (self.both, self.both[::-1]):
            assert own.state is not None
            stolen = other.answer(own.state)
            assert "it belongs to another request" in await other.check_response(stolen)
            assert f"me who=<{own.mark}>" in await own.check_response(own.answer(own.state))
            self.world.counts["states"] += 1

    async def _listen(self) -> None:
        """Subscribe to the same resources: each receives its own updates only, and cannot resume the other's stream."""
        streams: list[raw_client.Answer] = []
        for each in self.both:
            subscribed = each.at().ask("resources/subscribe", {"uri": "inbox://{box}"}, headers=each.token)
            assert (await subscribed.whole()).status == 200
            streams.append(await each.listen())
        primed = [await raw_client.first_event(stream) for stream in streams]
        is_by_function = self.draw.random() < 0.5
        # Told by either worker, to who listens at either. What has been told before is heard before.
        for each in self.both:
            to: Any = partial(_has_id, each.id) if is_by_function else Principal(each.id)
            for number, server in enumerate(self.world.servers):
                server.notify_resource_updated(f"inbox://{each.box}{number}", to=to)
        for each, stream in zip(self.both, streams, strict=True):
            boxes: set[str] = set()
            while len(boxes) < 2:
                update = await raw_client.within(stream.message())
                assert update is not None, "the stream has ended"
                text = each.check(json.dumps(update), each.mark)
                boxes.update(BOX.findall(text))
                self.world.counts["updates"] += 1
        for number, own in enumerate(self.both):
            back = await own.at().listen(primed[1 - number].id, headers=own.token).head()  # its own, at best
            assert back.status in {200, 400}
            for event_ in back.waiting():  # messages for `mine`, whichever stream
                own.check(event_.data or "", own.mark)
            back.disconnect()
            await own.check_response(back)
        for each, stream in zip(self.both, streams, strict=True):
            stream.disconnect()
            await each.check_response(stream)


async def main(pairs: int, seed: int) -> None:
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        async with World(Path(folder), seed) as world:
            for start in range(0, pairs, 20 * AT_ONCE):
                await world.run(min(20 * AT_ONCE, pairs - start))
                counts = ", ".join(f"{count:,} {what}" for what, count in sorted(world.counts.items()))
                print(f"{time.monotonic() - begin:6.0f} s: {counts}", flush=True)
    print("no response named another principal")


if __name__ == "__main__":
    logging.getLogger("mcpkit").setLevel(logging.ERROR)
    arguments = [int(each) for each in sys.argv[1:]]
    asyncio.run(main(*(arguments + [10_000, 1][len(arguments) :])))
