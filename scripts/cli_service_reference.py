"""Writes the part of docs/reference/cli.md that is about the service, from the commands themselves.

python scripts/cli_service_reference.py
"""

from pathlib import Path
from typing import Any

import typer

from millstream.cli.main import app

PAGE = Path(__file__).parents[1] / "docs/reference/cli.md"
BEGIN, END = "<!-- commands of the service -->\n", "<!-- end of the commands of the service -->\n"
ALONE = ("submit", "list", "start", "status", "logs", "stop", "rescale", "enable", "disable", "delete")
GROUPS = ("server", "node", "schedule", "secret", "config", "artifact", "checkpoint", "token", "context", "db")
OF_ALL = ("--debug", "--context", "--output", "--help")


def section() -> str:
    """Every command of the service with its arguments and options."""
    root: Any = typer.main.get_command(app)
    commands = [(name, root.commands[name]) for name in ALONE]
    for group in GROUPS:
        inner = root.commands[group]
        commands += [(f"{group} {name}", command) for name, command in inner.commands.items()]
    lines = [_intro()]
    for name, command in commands:
        lines.append(_described(name, command))
    return "\n".join(lines)


def _intro() -> str:
    return (
        "Commands that speak to a service take `--context NAME` (another than the current one), those that show something\n"
        "`-o`, `--output table|json|yaml`, and all of them `--debug`.\n"
    )


def _described(name: str, command: Any) -> str:
    arguments = " ".join(
        each.metavar or each.name.upper() for each in command.params if each.param_type_name == "argument"
    )
    options = [each for each in command.params if each.param_type_name == "option"]
    rows = [f"| {_names(each)} | {each.help} |" for each in options if not set(each.opts) & set(OF_ALL)]
    table = ["", "| option | meaning |", "|---|---|", *rows] if rows else []
    shared = [each.opts[-1] for each in options if set(each.opts) & {"--context", "--output"}]
    note = f" (`{'`, `'.join(shared)}`)" if shared else ""
    return "\n".join(
        [
            f"### {name}",
            "",
            f"`millstream {name} {arguments}`".replace(" `", "`") + f": {command.help}{note}",
            *table,
            "",
        ]
    )


def _names(option: Any) -> str:
    names = [*option.opts, *option.secondary_opts]
    return ", ".join(f"`{name}`" for name in names)


def written(page: str) -> str:
    """The page with the part in its place."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{section()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
