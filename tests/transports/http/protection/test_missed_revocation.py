"""Messages between processes are lost, a revocation among them: it is found where it is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from mcpkit import Principal, Server
from mcpkit.state.owner import digest_of
from mcpkit.state.revocations import Revocation, Revocations
from mcpkit.state.store import Stored
from tests.helpers.asgi_client import Serve
from tests.helpers.engines import LossyMemory
from tests.helpers.protected import listening, session_of
from tests.helpers.verified import ISSUER, Table, bearer
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

ADA, EVE = bearer("ada"), bearer("eve")


async def test_what_somebody_has_ends_where_the_message_was_lost(
    make: Callable[..., Server], serve: Serve, table: Table
) -> None:
    table.issued = 1000.0
    shared = LossyMemory()
    here, there = make(shared=shared), make(shared=shared)
    async with serve(here), serve(there) as app:
        session, other = [await session_of(app, token) for token in (ADA, EVE)]
        stream, kept = await listening(session, ADA), await listening(other, EVE)
        shared.loses_messages = True
        await here.revoke(Principal(f"{ISSUER}#sub=ada"))
        assert (await app.call("whoami", headers=ADA).whole()).status == 200  # nobody has told it
        shared.report_gap()
        lists = {f"notifications/{name}/list_changed" for name in ("tools", "prompts", "resources")}
        assert {each["method"] for each in await stream.messages()} <= lists  # and then it has ended
        assert (await app.call("whoami", headers=ADA).whole()).status == 401
        assert {(await kept.message())["method"] for _ in lists} == lists
        there.tools.disable("whoami")
        assert (await kept.message())["method"] == "notifications/tools/list_changed"


class Away(LossyMemory):
    """An engine that does not answer so many times."""

    times = 0

    async def items(self, prefix: str) -> AsyncIterator[tuple[str, Stored]]:
        if self.times:
            self.times -= 1
            raise ConnectionError("away")
        async for each in super().items(prefix):
            yield each


async def test_a_store_that_does_not_answer_is_asked_until_it_does(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mcpkit.state.revocations._AGAIN", 0)
    shared, heard = Away(), list[Revocation]()
    here, there, other = (Revocations(shared, name) for name in ("s", "s", "other"))
    end = there.listen(heard.append)
    await here.revoke("ada")
    assert [each.digest for each in heard] == [digest_of("ada")]
    shared.loses_messages, shared.times = True, 3
    await here.revoke("eve")
    await here.revoke("eve", 60)
    await other.revoke("bob")
    shared.report_gap()
    await until(lambda: len(heard) == 2)
    assert heard[1].digest == digest_of("eve")
    assert shared.times == 0
    assert caplog.text.count("is looked for again") == 3
    shared.loses_messages, shared.times = True, 10**9
    await here.revoke("ada")
    shared.report_gap()
    await until(lambda: shared.times < 10**9)
    end()
    shared.times = 0
    shared.report_gap()
    assert len(heard) == 2
