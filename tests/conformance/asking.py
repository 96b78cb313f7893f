"""What the conformance suite calls to be asked something: elicitation, sampling, roots, in both eras."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from mcpkit import Context, Elicit, ListRoots, Registry, Sample

asking = Registry()


@dataclass
class Account:
    username: str
    email: str


@dataclass
class Profile:
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


class Titled(Enum):
    ONE = "value1"
    TWO = "value2"
    THREE = "value3"

    @property
    def label(self) -> str:
        return self.name.capitalize()


Option = Literal["option1", "option2", "option3"]


class Choices(BaseModel):
    untitledSingle: Option
    titledSingle: Titled
    legacyEnum: Annotated[
        Literal["opt1", "opt2", "opt3"],
        Field(json_schema_extra={"enumNames": ["Option One", "Option Two", "Option Three"]}),
    ]
    untitledMulti: list[Option]
    titledMulti: list[Titled]


@dataclass
class Name:
    name: str


@dataclass
class Color:
    color: str


@dataclass
class Sure:
    ok: bool


@asking.tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Have the client's model answer.

    Args:
        prompt: What it is asked.
    """
    return f"LLM response: {(await ctx.sample(prompt, max_tokens=100)).text}"


@asking.tool
async def test_elicitation(message: str, ctx: Context) -> str:
    """Ask the user who they are.

    Args:
        message: What the user reads.
    """
    answer = await ctx.elicit(message, Account)
    return f"{answer.action}: {answer.value if answer else None}"


@asking.tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask with a form that is filled in already."""
    answer = await ctx.elicit("Check your profile", Profile)
    return f"{answer.action}: {answer.value if answer else None}"


@asking.tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask to choose, in each way there is."""
    answer = await ctx.elicit("Choose", Choices)
    return f"{answer.action}: {answer.value if answer else None}"


@asking.tool
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Ask for a name."""
    return f"Hello, {(await ctx.elicit('What is your name?', Name, key='user_name')).value.name}!"


@asking.tool
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Have the client's model answer."""
    return (await ctx.sample("What is the capital of France?", max_tokens=100)).text


@asking.tool
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Ask for the roots."""
    return ", ".join(root.uri for root in await ctx.list_roots())


@asking.tool
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Ask for consent."""
    return "state-ok" if (await ctx.elicit("Are you sure?", Sure)).value.ok else "refused"


@asking.tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask three things at once."""
    name, greeting, roots = await ctx.ask(
        Elicit("What is your name?", Name), Sample("Say hello", max_tokens=50), ListRoots()
    )
    return f"{name.value.name}: {greeting.text} ({len(roots)} roots)"


@asking.tool
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask one thing after the other."""
    name = (await ctx.elicit("Step 1: your name?", Name, key="step1")).value.name
    color = (await ctx.elicit("Step 2: your colour?", Color, key="step2")).value.color
    return f"{name} likes {color}"


@asking.tool
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Ask for consent, and find out whether the state has been changed on its way."""
    return str((await ctx.elicit("Go on?", Sure)).value.ok)


@asking.tool
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask what the client can be asked."""
    questions: list[Any] = []
    if ctx.client.supports("elicitation"):
        questions.append(Elicit("What is your name?", Name))
    if ctx.client.supports("sampling"):
        questions.append(Sample("Say hello", max_tokens=50))
    return f"{len(await ctx.ask(*questions))} answers"


@asking.prompt
async def test_input_required_result_prompt(ctx: Context) -> str:
    """Ask for the context of a prompt."""

    @dataclass
    class Setting:
        context: str

    return f"Given {(await ctx.elicit('Which context?', Setting)).value.context}, answer."
