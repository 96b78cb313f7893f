"""The page of `mcpkit install` has the table of hosts that the commands go by."""

from __future__ import annotations

from pathlib import Path

from mcpkit.cli.configurations.table import HOSTS, Host

PAGE = Path(__file__).parents[3] / "docs" / "commands" / "install.md"
MARK = "<!-- the hosts, from mcpkit/cli/configurations/table.py -->"


def user_files(host: Host) -> str:
    place = host.user
    named = {"macOS": place.macos, "Windows": place.windows}
    others = [f"{system} `{path}`" for system, path in named.items() if path and path != place.linux]
    if place.variable:
        others.append(f"else `${place.variable}/{place.below}`")
    return "; ".join([f"`{place.linux}`", *others])


def project_files(host: Host) -> str:
    files = [f"`{host.project}`" if host.project else ""]
    files.append(f"local `{host.local}`" if host.local else "")
    files.append("local in the user's file" if host.local_keys else "")
    return "; ".join(filter(None, files)) or "none"


def row(host: Host) -> str:
    urls = [kind for kind, reached in (("HTTP", host.http), ("SSE", host.sse)) if reached is not None]
    started = [
        name for name, key in (("`--cwd`", host.started.cwd), ("`--env-file`", host.started.env_file)) if key
    ]
    cells = (
        f"`{host.name}`: [{host.title}]({host.source})",
        user_files(host),
        project_files(host),
        f"{host.format}, `{'.'.join(host.keys)}`",
        ", ".join(urls) or "none",
        ", ".join(started) or "neither",
        f"[{', '.join(f'`{each}`' for each in host.variables) or 'none'}]({host.variables_source})",
        " ".join(filter(None, (host.remark, host.project_remark and f"Projects: {host.project_remark}"))),
    )
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def test_the_table_of_hosts_is_that_of_the_code() -> None:
    titles = ("Host", "User", "Project", "Written in", "URLs", "Has a place for", "Replaces", "Then")
    header = f"| {' | '.join(titles)} |\n{'| --- ' * len(titles)}|\n"
    table = header + "".join(row(host) + "\n" for host in HOSTS.values())
    _, _, shown = PAGE.read_text().partition(MARK)
    assert shown == f"\n\n{table}", f"the page has to end with this table:\n{table}"
