"""The rows of the page on limits, and where the code has what they say."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

from mcpkit import Server, Task, Tasks, resource_dir
from mcpkit.auth import Introspection, Jwt
from mcpkit.transports.http.options import Settings
from mcpkit.transports.stdio import run_stdio

HTTP = "mcpkit.transports.http"

ROWS: dict[str, tuple[Any, ...]] = {
    "body of a request": ("server.asgi(max_body=)",),
    "bodies that are on their way": ("server.asgi(max_body_total=)",),
    "time for a body": ("server.asgi(body_timeout=)",),
    "body of a request that is refused": tuple(
        f"{HTTP}.intake.refused_body:{name}" for name in ("_SHORT", "_SOON", "_MUCH", "_LATE")
    ),
    "line": ("server.run(max_line=)",),
    "nesting of a message": (201,),  # the parser's own, as is the next
    "number": (4300,),
    "id of a request": ("mcpkit.protocol.jsonrpc:MAX_ID_LENGTH", "mcpkit.protocol.jsonrpc:MAX_ID_BITS"),
    "progress token": ("mcpkit.protocol.jsonrpc:MAX_ID_LENGTH", "mcpkit.protocol.jsonrpc:MAX_ID_BITS"),
    "batch": ("mcpkit.engine.peer:MAX_BATCH",),
    "what a client says of itself": ("mcpkit.protocol.eras:MAX_CLIENT_LENGTH",),
    "revision that a client names": ("mcpkit.protocol.eras:MOST_REPEATED",),
    "session id": (f"{HTTP}.sessions.token:MAX_LENGTH",),
    "URI that is read": ("mcpkit.engine.methods:_MAX_URI_LENGTH",),
    "matching of a URI by a template of a FastMCP": ("mcpkit.compat.fastmcp.resources:_MOST_STEPS",),
    "problems of arguments that are told": (
        "mcpkit.common.errors:ArgumentsError.MOST",
        "mcpkit.schema.problems:MOST_PROBLEMS",
    ),
    "steps of a pattern that looks around or refers back": tuple(
        f"mcpkit.schema.backtracking:{name}"
        for name in ("_STEPS", "_LEAST_STEPS", "_MOST_LINEAR", "MOST_STEPS", "MOST_LONG")
    ),
    "tries of the choices of a union that contains itself": (
        "mcpkit.schema.recursion:_MOST_TRIES",
        "mcpkit.schema.recursion:_TRIES_OF_ONE",
    ),
    "values of one hash": ("mcpkit.schema.values:MOST_COLLISIONS",),
    "`requestState` that a client brings": ("mcpkit.calls.asking.multi_round:MAX_STATE",),
    "answers where more is asked": ("mcpkit.calls.asking.multi_round:_MAX_ANSWERS",),
    "values that complete an argument": (
        "mcpkit.components.completion:MOST",
        "mcpkit.components.completion:MOST_COUNTED",
    ),
    "time of a completion": ("Server(timeout=)", "mcpkit.components.completion:TIMEOUT"),
    "size of a tool's result": ("SizeLimit(most)",),
    "page of a list": ("Server(page_size=)",),
    "files of a folder that are listed": ("resource_dir(most_entries=)",),
    "items of an iterator": ("mcpkit.content.lazy:MOST_ITEMS",),
    "nesting of a result": ("mcpkit.content.plain:DEEPEST",),
    "integer in a result": ("mcpkit.content.reading:_GREATEST",),
    "progress of a call": ("mcpkit.calls.reports:BURST", "mcpkit.calls.reports:INTERVAL"),
    "log records that wait for a client": ("mcpkit.calls.reports:MOST_WAITING",),
    "client that does not read": (f"{HTTP}.exchange:_PATIENCE", f"{HTTP}.exchange:_PIECE"),
    "what waits for a client of HTTP+SSE": (f"{HTTP}.exchange:MOST_QUEUED",),
    "events kept for a client that comes back": (
        "server.asgi(max_kept=)",
        f"{HTTP}.sessions.events:MOST_EVENTS",
    ),
    "sessions": ("server.asgi(max_sessions=)",),
    "time of a session without requests": ("server.asgi(session_ttl=)",),
    "time of a session that is opened and not used": (f"{HTTP}.sessions.registry:_BRIEF",),
    "time of a session in all": ("server.asgi(session_max_age=)",),
    "streams that listen": ("server.asgi(max_streams=)",),
    "places of one client": (),
    "streams of a pipe": ("Server(max_running=)",),
    "URIs and keys that are subscribed to": tuple(
        f"mcpkit.engine.subscriptions.listen:{name}"
        for name in ("MAX_URIS", "MAX_URI_LENGTH", "MAX_URIS_LENGTH")
    ),
    "changes that wait for a reader": ("mcpkit.engine.subscriptions.mailbox:Pending.LIMIT",),
    "questions that a client leaves open": ("mcpkit.calls.asking.pending:MOST_OPEN",),
    "time for an answer": ("Server(question_timeout=)",),
    "times that a form is asked again": ("mcpkit.calls.asking.pending:_TRIES",),
    "requests that run": ("Server(max_running=)",),
    "calls of one component": ("@server.tool(concurrency=)",),
    "worker threads": ("Server(threads=)",),
    "threads of calls that are over": ("Server(stuck_threads=)",),
    "worker processes": ("Server(processes=)",),
    "start of a worker process": ("mcpkit.calls.workers.processes:_START_LIMIT",),
    "time of a call": ("Server(timeout=)",),
    "wait for the lifespan": ("Server(lifespan_wait=)",),
    "time to finish at the end": ("server.asgi(grace=)", "mcpkit.transports.stdio:GRACE"),
    "tasks that one process runs at a time": ("Server(tasks=Tasks(slots=))",),
    "tasks that one principal, or one address of strangers, has open": ("Server(tasks=Tasks(per_owner=))",),
    "tasks that are open": ("Server(tasks=Tasks(most=))",),
    "work on one task": ("@server.tool(task=Task(timeout=))",),
    "runs of a task that end with their process": ("@server.tool(task=Task(attempts=))",),
    "keeping of a task that has ended": ("@server.tool(task=Task(keep=))",),
    "lease of a task": ("Server(tasks=Tasks(lease=))",),
    "record of a task": ("mcpkit.tasks.ledger:MAX_RECORD",),
    "idempotency key": ("mcpkit.tasks.ids:MAX_KEY",),
    "changes that wait for the shared store": ("mcpkit.engine.subscriptions.relay:MOST_WAITING",),
    "updates for some users that other processes are asked about": (
        "mcpkit.engine.subscriptions.relay:MOST_ASKED",
    ),
    "messages in a `Sqlite` that processes have not fetched yet": (
        "mcpkit.state.bulletin:_MOST_MESSAGES",
        "mcpkit.state.bulletin:_LONGEST_WAIT",
    ),
    "look at tasks that wait, by who measures": ("mcpkit.tasks.measuring:_PATIENCE",),
    "look whether the shared store answers": (f"{HTTP}.readiness:_PATIENCE", f"{HTTP}.readiness:_FRESH"),
    "wait of a `RateLimit` for the shared store": ("mcpkit.middlewares.shared_buckets:_PATIENCE",),
    "wait for a `Sqlite` that another process has locked": ("mcpkit.state.database:PATIENCE",),
    "messages in a `Redis` that processes have not read yet": (
        "mcpkit.state.redis_log:MOST_MESSAGES",
        "mcpkit.state.redis_log:LONG",
        30,
    ),
    "wait for a `Redis` that does not answer": ("mcpkit.state.redis_link:PATIENCE",),
    "access token of a request": ("mcpkit.transports.http.protection.bearer:MOST",),
    "document of a provider": ("Jwt(timeout=)", "mcpkit.auth.fetching:MAX_DOCUMENT"),
    "code that a provider sends somebody back with": ("mcpkit.auth.upstream.provider:MAX_CODE",),
    "claims of a user that a provider tells": ("mcpkit.auth.upstream.provider:MAX_CLAIMS",),
    "access token that a verifier reads": ("mcpkit.auth.jws:MAX_TOKEN",),
    "names and lists in an access token": (
        "mcpkit.auth.claims:MAX_NAME",
        "mcpkit.auth.jws:MAX_KEY_ID",
        "mcpkit.auth.claims:MOST_SCOPES",
        "mcpkit.auth.audiences:MOST_AUDIENCES",
    ),
    "claims that are kept": ("mcpkit.auth.claims:MAX_CLAIM",),
    "difference between clocks": ("Jwt(leeway=)",),
    "age of what an issuer has answered of a token": ("Introspection(fresh=)",),
    "fetches for unknown keys": ("Jwt(cooldown=)",),
    "keys of an issuer": tuple(
        f"mcpkit.auth.key_set:{name}" for name in ("MOST_KEYS", "MOST_TRIED", "_MOST_RSA_BITS")
    ),
    "age of keys": tuple(
        f"mcpkit.auth.{name}"
        for name in (
            "published_keys:SHORTEST",
            "published_keys:LONGEST",
            "published_keys:STALE",
            "issuer_metadata:RETRY",
        )
    ),
    "form, query or body at `DevAuth`": ("mcpkit.auth.authority.parameters:MAX_SIZE",),
    "redirect URIs of a client of `DevAuth`": (
        "mcpkit.auth.authority.registration:_MAX_REDIRECT_URIS",
        "mcpkit.auth.authority.redirects:MAX_LENGTH",
    ),
    "name of a client of `DevAuth`": ("mcpkit.auth.authority.registration:_MAX_NAME",),
    "metadata documents of clients that `DevAuth` fetches": (
        "mcpkit.auth.authority.client_documents:_MOST_FETCHED",
        "mcpkit.auth.authority.client_documents:_MOST_OF_ONE",
        "mcpkit.auth.authority.client_documents:_PATIENCE",
    ),
    "names of clients' documents that are looked up": (
        "mcpkit.auth.authority.public_internet:_MOST_LOOKUPS",
    ),
    "pages of `OAuthProxy` to one address": tuple(
        f"mcpkit.auth.proxy.limits:PAGES.{name}" for name in ("burst", "every")
    ),
    "registrations at `OAuthProxy` of one address": tuple(
        f"mcpkit.auth.proxy.limits:REGISTRATIONS.{name}" for name in ("burst", "every")
    ),
    "requests for tokens at `OAuthProxy` of one address": tuple(
        f"mcpkit.auth.proxy.limits:TOKENS.{name}" for name in ("burst", "every")
    ),
    "pages of logins in one browser": (
        "mcpkit.auth.authority.consent:_MOST",
        "mcpkit.auth.authority.asked:LIFETIME",
    ),
    "what a browser remembers for `OAuthProxy`": tuple(
        f"mcpkit.auth.proxy.remembered:{name}" for name in ("_MOST", "_LONGEST", "LIFETIME")
    ),
    "picture on the pages of `OAuthProxy`": ("mcpkit.auth.authority.look:MAX_PICTURE",),
    "bad access tokens from one address": tuple(
        f"mcpkit.transports.http.protection.verification:{name}" for name in ("MOST_BAD", "WINDOW")
    ),
    "access tokens that are verified at a time": (
        "mcpkit.transports.http.protection.verification:MOST_AT_ONCE",
    ),
    "revocations that a process remembers": ("mcpkit.state.revocations:MOST_HEARD",),
    "stream whose access token nobody can verify again": ("mcpkit.transports.http.protection.leases:GRACE",),
    "refusals that the audit tells of": tuple(
        f"mcpkit.state.audit:{name}" for name in ("MOST_OF_ONE", "MOST_OF_ALL", "WINDOW")
    ),
}
"""Of each row the setting, or the constants, whose values are its default."""

NO_BOUNDS = {
    "guard.py:_LONGEST_HOST": "characters of a host; longer names match no wildcard",
    "uris.py:_LONGEST_HOST": "characters of a host; longer names are compared as they are",
    "client.py:_MOST_GIVEN_UP": "requests of a client that were given up and may still be answered",
    "docstring_sections.py:_LONGEST_NAMES": "characters of a line of a docstring that may be names of arguments",
    "loggable.py:_DEEPEST": "levels of what an author logs; deeper ones are sent as text",
    "problems.py:_LARGEST_TEXT": "whole numbers from there on are not read as text",
    "repair.py:_MOST_WAYS": "readings of a value that are compared; with more there is no single one",
    "values.py:_MOST_OF_ITEMS": "characters that `items` may add to the schema of a tuple",
    "token_answers.py:MOST_SAID": "characters that are repeated of what a provider says",
    "record.py:_FEWEST": "what clients are advised",
    "record.py:_MOST": "what clients are advised",
    "handshake.py:_LONGEST": "more than any author lets tasks be kept for",
    "wire.py:_MOST_TOLD": "characters of a failure, said in a status",
    "service.py:_TRIES": "changes that others get ahead of",
    "polls.py:_MOST_LOOKS": "when clients are advised otherwise",
    "endpoint.py:_MOST_KEPT": "a cache",
    "client_documents.py:_MOST_KEPT": "a cache",
    "client_documents.py:_LONGEST": "a cache",
    "logins.py:PATIENCE": "then a client is told to come again",
    "admission.py:_PATIENCE": "then the login is refused, or the client told to come again",
    "cookies.py:_LONGEST": "what browsers keep as one cookie",
    "cookies.py:MOST": "what servers read as one header",
    "transactions.py:_MOST": "logins in one browser; the oldest is begun anew",
    "registration.py:_MOST_MARKS": "on one letter of a name that is shown",
    "public_internet.py:_MAX_TRIED": "addresses of one host",
    "transport_security.py:DEFAULT_MAX_REQUEST_BODY_SIZE": "what asgi(max_body=) is by default",
    "serving.py:DEFAULT_SESSION_IDLE_TIMEOUT": "a default of managers of `mcp`, for asgi(session_ttl=)",
    "server.asgi(stream_after=)": "when an answer becomes a stream",
    "server.asgi(keep_alive=)": "how often a silent stream says that it is there",
    "pending.py:_KEPT": "questions that are over",
    "questions.py:_MOST_TOLD": "characters of what does not fit, said in a question",
    "rounds.py:_MAC": "a length",
    "hub.py:_AT_A_TIME": "told in one turn of the loop",
    "plain.py:_MANY": "when values are looked at otherwise",
    "relay.py:_AT_A_TIME": "sent in one message",
    "bulletin.py:_AT_A_TIME": "read at once",
    "sqlite.py:_AT_A_TIME": "read at once",
    "redis.py:_AT_A_TIME": "read at once",
    "redis.py:_MUCH": "read at once",
    "redis.py:_LONGEST": "what Redis can count to",
    "redis_log.py:_AT_A_TIME": "sent at once",
    "journal.py:_AT_A_TIME": "written at once",
    "journal.py:_TRIES": "then it is tried later",
    "freshness.py:_PATIENCE": "then what is known is used",
    "remote.py:_PATIENCE": "then a client is answered all the same",
    "checks.py:_PATIENCE": "then a client is answered all the same",
    "relay.py:_PATIENCE": "then it is looked for otherwise",
    "sqlite.py:_TIDIED_AT_A_TIME": "removed at once",
    "database.py:_LARGE": "when writers wait for the disk",
    "listing.py:_MOST_KEPT": "a cache",
    "access_log.py:_LONGEST": "characters in a log record",
    "size_limit.py:_MOST_NAMES": "arguments that are suggested",
    "telemetry.py:_LONGEST": "characters in a span",
    "headers.py:_LARGEST": "the specification's: what a header can say",
    "jsonrpc.py:_LARGE": "when a message is looked at otherwise",
    "jsonrpc.py:_LARGEST_ID": "follows from the bits of an id",
    "choices.py:_MANY": "from so many choices on they are looked up",
    "reports.py:MOST_UNREAD": "when a client has to show that it reads",
    "resource_dir.py:MOST_ENTRIES": "the default of a setting",
    "processes.py:_END_LIMIT": "when a worker that ends is killed",
    "arguments.py:_MOST_ERRORS": "when what is wrong is told otherwise",
    "wording.py:_LONGEST": "characters of a value that is shown",
    "expectations.py:MOST_CHOICES": "choices that are shown",
    "foreign_types.py:_MOST_DIMENSIONS": "of a schema",
    "nearest.py:_LONGEST": "of a name for which a like one is looked for",
    "output.py:_MOST_LINES": "lines of a message",
    "problems.py:_DEEPEST": "how far explaining looks",
    "problems.py:_MOST_VALUES": "how far explaining looks",
    "problems.py:_MANY": "when items are looked at otherwise",
    "values.py:_MOST_FLAGS": "of a schema",
    "values.py:MOST_PATTERNS": "a cache",
    "framing.py:MAX_LINE": "the default of a setting",
    "exchange.py:_MANY": "when who reports waits for the client",
    "exchange.py:_MUCH": "when who reports waits for the client",
    "announcing.py:_MOST_NAMED": "names that are shown to people",
    "arrivals.py:_MOST_KEPT": "a cache",
    "audit.py:_LONGEST": "for reading",
    "leases.py:_AT_A_TIME": "verified again at once",
    "leases.py:_LONGEST": "how long a timer sleeps",
    "leases.py:_PATIENCE": "how long the end of a thread is waited for",
    "orphans.py:_AT_A_TIME": "given up at once",
    "revocations.py:KEPT_FOR": "the default of a setting",
    "verification.py:_MOST_ADDRESSES": "a cache",
    "verification.py:_MOST_LOGGED": "what is logged, not what a client gets",
    "guard.py:_MAX_REMEMBERED": "a cache",
    "guard.py:_MAX_REMEMBERED_LENGTH": "a cache",
    "negotiation.py:_MANY": "a cache",
    "token.py:_ROOM": "when an id says less of its client",
    "pipe_output.py:_ROOM": "when more is welcome again",
    "pipe_output.py:_LONGEST_WAIT": "how long messages are gathered",
    "terminal.py:_MOST": "names that are shown to people",
    "claims.py:_LONGEST_TIME": "the last second of the year 9999",
    "fetching.py:PATIENCE": "the default of a setting",
    "watching.py:LONGEST_DELAY": "how soon the author's function is called again",
}
"""What looks like a bound and is none of what a client sends or causes: why."""

UNITS = {"KiB": 1024, "MiB": 1024 * 1024}


def numbers_in(cell: str) -> list[float]:
    """Return the numbers that a cell of the page says, bytes and not KiB."""
    found = re.findall(r"(\d[\d,]*(?:\.\d+)?)(?: (KiB|MiB))?", cell)
    return [float(number.replace(",", "")) * UNITS.get(unit, 1) for number, unit in found]


def settings() -> dict[str, Any]:
    """Return what has a number as its setting, with its default; None for none."""
    owners: list[tuple[str, Any]] = [
        ("Server({}=)", Server),
        ("server.run({}=)", run_stdio),
        ("Jwt({}=)", Jwt),
        ("Introspection({}=)", Introspection),
        ("Server(tasks=Tasks({}=))", Tasks),
        ("@server.tool(task=Task({}=))", Task),
    ]
    found: dict[str, Any] = {"resource_dir(most_entries=)": _default(resource_dir, "most_entries")}
    for name, hint in inspect.get_annotations(Settings).items():
        if re.search(r"\b(int|float)\b", str(hint)):
            found[f"server.asgi({name}=)"] = getattr(Settings, name, None)
    for form, owner in owners:
        for name, parameter in inspect.signature(owner).parameters.items():
            if re.search(r"\b(int|float)\b", str(parameter.annotation)):
                found[form.format(name)] = parameter.default
    for same in ("Jwt(clock=)", "Introspection(clock=)", "Introspection(timeout=)", "Introspection(leeway=)"):
        del found[same]  # a function that returns one, or in the same row as that of Jwt
    del found["server.run(grace=)"]  # which is in the same row as that of asgi
    return found


def value_of(source: Any) -> list[float]:
    """Return the default of a setting, the value of a constant, or a number itself."""
    if not isinstance(source, str):
        return [source]
    if ":" not in source:
        default = settings().get(source)
        return [] if default is None else [default]
    module, _, path = source.partition(":")
    value: Any = importlib.import_module(module)
    for name in path.split("."):
        value = getattr(value, name)
    if path == "_GREATEST":
        value = value.bit_length() - 1
    return [1 / value if path == "INTERVAL" else value]


def _default(function: Any, name: str) -> Any:
    return inspect.signature(function).parameters[name].default
