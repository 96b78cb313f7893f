"""Pairs of principals at two workers, drawn from a seed: what one of them is told is never anybody else's.

Each of a pair opens sessions, some of them before logging in, listens, asks, is asked, lists and reads, with one token
after another, at whichever worker; and tries to get at what is the other's. The workers share a file, and are started
again in the midst of it. Of all that somebody is told, whatever names a principal must name them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import re
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from mcpkit import Principal, Server, Sqlite
from mcpkit.state.principal import client as client_by_itself
from mcpkit.state.principal import user
from tests.helpers.pairs_server import ISSUERS, NOBODY, SCOPES, box_of, make_server, mark_of
from tests.helpers.protected import Lenient
from tests.helpers.raw_client import DECLARED, Answer, Client, Session, accept, initialize, lifespan, within

URL = "https://mcp.example.com/mcp"
MARK = re.compile(r"who=<([^>]*)>")
BOX = re.compile(r"inbox://([0-9a-f]+)")
ASKING = {"capabilities": {"elicitation": {"form": {}}}}
AT_ONCE = 24
"""Pairs that do so at the same time."""


class LeakedError(AssertionError):
    """Somebody was told of somebody else."""


class _Unkept(list[Answer]):
    """Keeps nothing."""

    def append(self, answer: Answer, /) -> None: ...


class World:
    """Two workers with one file.

    Args:
        folder: Where the file is.
        seed: What everything is drawn from.

    Attributes:
        counts: What has happened.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.draw = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.clients: list[Client] = []
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
        app = server.asgi(public_url=URL, allowed_hosts=["localhost"], grace=0, max_sessions=100_000)
        await stack.enter_async_context(lifespan(app))
        client = Client(app, self._folder)
        client.opened = _Unkept()
        self.clients[number : number + 1], self.servers[number : number + 1] = [client], [server]
        self._stacks[number : number + 1] = [stack]

    async def restart(self, number: int) -> None:
        """End a worker, and start another one in its place."""
        self.counts["restarts"] += 1
        await self._stacks[number].aclose()
        await self._start(number)

    def any(self) -> Client:
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
            await asyncio.gather(*(pair.go_on() for pair in batch))
            self.counts["pairs"] += len(batch)


class Actor:
    """One of a pair.

    Args:
        world: Where it lives.
        issuer: Who has said whose the tokens are.
        subject: Which user it is; None for a client by itself.
        client_id: The client.
    """

    def __init__(self, world: World, issuer: str, subject: str | None, client_id: str) -> None:
        self.world = world
        self.claims = (issuer, subject, client_id)
        self.issuer = issuer
        self.scopes: list[str] = []
        self.tokens = 0
        make = user(issuer, subject, client_id=client_id) if subject else client_by_itself(issuer, client_id)
        self.id, self.mark, self.box = make.id, mark_of(make), box_of(make.id)
        self.session: Session | None = None
        self.is_nobodys = False
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

    async def told(self, answer: Answer, *, mark: str | None = None) -> str:
        """Return all that an answer says: it names nobody else."""
        await answer.whole()
        self.world.counts["requests"] += 1
        return self.check(answer.body.decode(), self.mark if mark is None else mark)

    def check(self, text: str, mark: str) -> str:
        """Raise where a text names somebody else."""
        if others := set(MARK.findall(text)) - {mark}:
            raise LeakedError(f"{mark} was told of {others}: {text[:500]}")
        if mark == self.mark and (
            boxes := {each for each in BOX.findall(text) if not each.startswith(self.box)}
        ):
            raise LeakedError(f"{mark} was told of {boxes}: {text[:500]}")
        return text

    async def open(self, *, as_nobody: bool) -> None:
        """Open a session."""
        client, token = self.world.any(), {} if as_nobody else self.token
        answer = client.post(initialize(**ASKING), token, judge=Lenient(client))
        await self.told(answer)
        assert answer.status == 200, answer.body
        self.session = Session(client, "2025-11-25", answer.headers["mcp-session-id"], answer.judge)
        self.is_nobodys = as_nobody
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await self.at().post(ready, token).whole()).status == 202
        self.world.counts["sessions of nobody" if as_nobody else "sessions"] += 1

    def at(self) -> Session:
        """Return its session at one of the workers."""
        assert self.session is not None
        return self.session.at(self.world.any())

    async def say(self) -> None:
        """Call a tool, in either era."""
        if self.session is not None and self.world.draw.random() < 0.6:
            answer = self.at().call("say", headers=self.token)
        else:
            answer = self._ask("tools/call", {"name": "say", "arguments": {}})
        assert f"who=<{self.mark}>" in await self.told(answer), (answer.status, answer.body)

    async def write(self) -> None:
        """Call a tool that takes a scope."""
        answer = self._ask("tools/call", {"name": "write", "arguments": {}})
        text = await self.told(answer)
        assert answer.status == (200 if "notes:write" in self.scopes else 403), text

    async def list(self) -> None:
        """List tools and resources: those that are for it, for it alone."""
        tools = self._ask("tools/list", {})
        result = json.loads(await self.told(tools))["result"]
        expected = [
            "say",
            "ask",
            "write",
            *(["odd"] if "odd" in self.scopes else []),
            f"of_{self.issuer[8:11]}",
        ]
        assert [each["name"] for each in result["tools"]] == expected
        assert result["cacheScope"] == "private"
        listed = self._ask("resources/list", {})
        assert f"who=<{self.mark}>" in await self.told(listed)

    async def read(self) -> None:
        """Read what may be kept, and by whom."""
        answer = self._ask("resources/read", {"uri": "inbox://mine"})
        result = json.loads(await self.told(answer))["result"]
        assert result["contents"][0]["text"] == f"who=<{self.mark}>"
        assert result["cacheScope"] == "private"
        self.world.counts["reads"] += 1

    async def be_asked(self) -> None:
        """Begin a request of the stateless era that has to be gone on with."""
        result = json.loads(await self.told(self._ask("tools/call", {"name": "ask", "arguments": {}})))[
            "result"
        ]
        self.state = result["requestState"]

    def answer(self, state: str) -> Answer:
        """Go on with a request."""
        params = {
            "name": "ask",
            "arguments": {},
            "requestState": state,
            "inputResponses": {"#1": accept("me")},
        }
        return self._ask("tools/call", params)

    def _ask(self, method: str, params: dict[str, Any]) -> Answer:
        client = self.world.any()
        answer = client.ask(method, params, headers=self.token, meta=DECLARED)
        answer.judge = Lenient(client)
        return answer

    async def listen(self) -> Answer:
        """Open a stream of its session."""
        stream = await self.at().listen(headers=self.token).head()
        assert stream.status == 200, stream.body
        return stream


class Pair:
    """Two who have nothing in common, or a user and a client, or one user by two clients.

    Args:
        world: Where they live.
        number: Which pair it is.
    """

    def __init__(self, world: World, number: int) -> None:
        draw = self.draw = world.draw
        self.world = world
        issuer, other_issuer = draw.sample(ISSUERS, 2)
        name, app = f"s{number}", f"c{number}"
        # What they are is alike where it may be.
        first, second = draw.choice(
            [
                ((issuer, name, app), (issuer, f"{name}x", app)),
                ((issuer, name, app), (other_issuer, name, app)),
                ((issuer, name, app), (issuer, name, f"{app}x")),
                ((issuer, app, app), (issuer, None, app)),
                ((issuer, None, app), (other_issuer, None, app)),
            ]
        )
        self.first, self.second = Actor(world, *first), Actor(world, *second)
        self.both = [self.first, self.second]
        draw.shuffle(self.both)

    async def begin(self) -> None:
        """Open sessions, and begin what is gone on with after a restart."""
        for each in self.both:
            await each.open(as_nobody=self.draw.random() < 0.4)
            await each.be_asked()
        await self._some_steps()

    async def go_on(self) -> None:
        """Go on with it, at other workers and with other tokens."""
        for each in self.both:
            each.renew()
        await self._adopt()
        await self._some_steps()
        await self._intrude()
        await self._go_on_with_states()
        await self._listen()
        await self._question()
        for each in self.both:
            if self.draw.random() < 0.5:
                client = self.world.any()
                session = each.at()
                ended = await client.open("DELETE", headers=session.headers(each.token)).whole()
                assert ended.status == 204

    async def _some_steps(self) -> None:
        for each in self.both:
            steps = [each.write, each.list, each.read]
            if not each.is_nobodys:
                steps.append(each.say)
            for step in self.draw.sample(steps, 2):
                if self.draw.random() < 0.3:
                    each.renew()
                await step()

    async def _adopt(self) -> None:
        """Let both claim a session of nobody's at once: one of them has it, and nobody else ever."""
        for each in self.both:
            if not each.is_nobodys:
                continue
            assert each.session is not None
            before = each.at().call("say", headers={})
            assert f"who=<{NOBODY}>" in await each.told(before, mark=NOBODY)
            rivals = [each.at().call("say", headers=who.token) for who in self.both]
            for who, answer in zip(self.both, rivals, strict=True):
                await who.told(answer)
            winners = [who for who, answer in zip(self.both, rivals, strict=True) if answer.status == 200]
            assert len(winners) == 1, [answer.status for answer in rivals]
            assert (await each.at().call("say", headers={}).whole()).status == 404
            each.is_nobodys = False
            self.world.counts["adoptions"] += 1
            if winners == [each]:
                continue
            await each.open(as_nobody=False)  # somebody else has been faster

    async def _intrude(self) -> None:
        """Come with the other's id in all ways."""
        for mine, other in (self.both, self.both[::-1]):
            session = other.at()
            for token in (mine.token, {}):
                intrusions = [
                    session.call("say", headers=token),
                    session.listen(headers=token),
                    session.client.open("DELETE", headers=session.headers(token)),
                ]
                for each in intrusions:
                    await mine.told(each)
                    assert each.status == 404, (each.status, each.body)
                    self.world.counts["intrusions"] += 1

    async def _go_on_with_states(self) -> None:
        for mine, other in (self.both, self.both[::-1]):
            assert mine.state is not None
            stolen = other.answer(mine.state)
            assert "it belongs to another request" in await other.told(stolen)
            assert f"me who=<{mine.mark}>" in await mine.told(mine.answer(mine.state))
            self.world.counts["states"] += 1

    async def _listen(self) -> None:
        """Listen to the same, and be told of one's own alone; nobody comes back to the other's stream."""
        streams: list[Answer] = []
        for each in self.both:
            subscribed = each.at().ask("resources/subscribe", {"uri": "inbox://{box}"}, headers=each.token)
            assert (await subscribed.whole()).status == 200
            streams.append(await each.listen())
        primed = [await stream.event() for stream in streams]
        is_by_function = self.draw.random() < 0.5
        # Told by either worker, to who listens at either. What has been told before is heard before.
        for each in self.both:
            to: Any = Principal(each.id)
            if is_by_function:
                to = lambda who, id_=each.id: who.id == id_  # noqa: E731
            for number, server in enumerate(self.world.servers):
                server.resource_updated(f"inbox://{each.box}{number}", to=to)
        for each, stream in zip(self.both, streams, strict=True):
            heard: set[str] = set()
            while len(heard) < 2:
                message = await within(stream.message())
                assert message is not None, "the stream has ended"
                text = each.check(json.dumps(message), each.mark)
                heard.update(BOX.findall(text))
                self.world.counts["updates"] += 1
        for number, (mine, other) in enumerate((self.both, self.both[::-1])):
            event = primed[1 - number]
            assert event is not None
            back = await mine.at().listen(event.id, headers=mine.token).head()  # a stream of its own, at best
            assert back.status in {200, 400}
            for told in back.waiting():  # what is told to mine, whatever the stream is called
                mine.check(told.data or "", mine.mark)
            back.disconnect()
            await mine.told(back)
            assert other is not mine
        for each, stream in zip(self.both, streams, strict=True):
            stream.disconnect()
            await each.told(stream)

    async def _question(self) -> None:
        """Be asked in a session: the other cannot answer, whichever session it names."""
        for mine, other in (self.both, self.both[::-1]):
            call = mine.at().call("ask", headers=mine.token)
            question = await within(call.message())
            mine.check(json.dumps(question), mine.mark)
            answer = {"jsonrpc": "2.0", "id": question["id"], "result": accept("somebody else")}
            for session, statuses in ((mine.at(), {404}), (other.at(), {400, 202})):
                tried = session.post(answer, other.token)
                await other.told(tried)
                assert tried.status in statuses, tried.status
            answer["result"] = accept("me")
            assert (await mine.at().post(answer, mine.token).whole()).status == 202
            assert f"me who=<{mine.mark}>" in await mine.told(call)
            self.world.counts["questions"] += 1
