"""``turnmill templates list|show|check``: the instructions managed contexts are written after."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from turnmill.contract.errors import InvalidInput
from turnmill.contract.names import template_name
from turnmill.contract.plural import count
from turnmill_cli.options import GroupApp, JsonFlag
from turnmill_cli.output import (
    print_json,
    print_line,
    print_note,
    print_rows,
    print_text,
)
from turnmill_worker.templates import Listed, Template, TemplateLoader, read_template, warnings

SHOWN_SHA256 = 12

Folders = Annotated[
    list[Path] | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        envvar="TURNMILL_TEMPLATE_DIRS",
        help="A folder to search before the built-in templates. Can be repeated, in this order.",
        show_default=False,
    ),
]

templates_app = GroupApp(help="List, show or check templates of managed contexts.")


@templates_app.command("list")
def list_templates(folders: Folders = None, as_json: JsonFlag = False) -> None:
    """List all templates: where each is from, and which one hides another of the same name."""
    print_rows(
        _loader(folders).list(),
        {
            "name": lambda each: each.name,
            "sha256": lambda each: (
                each.template.sha256[:SHOWN_SHA256] if each.template else "not valid"
            ),
            "description": _about,
            "folder": lambda each: (
                str(Path(each.source).parent) if Path(each.source).is_absolute() else each.source
            ),
        },
        none="no templates",
        as_json=_as_row if as_json else None,
        style=lambda each: "red" if each.problem else "dim" if each.shadowed_by else None,
    )


@templates_app.command("show")
def show_template(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The template's name.")],
    folders: Folders = None,
    as_json: JsonFlag = False,
) -> None:
    """Print the template with this name, as it is written."""
    template = _loader(folders).load(name)
    if as_json:
        print_json(_as_dict(template) | {"text": template.text})
    else:
        print_text(template.text)


@templates_app.command("check")
def check_templates(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Template files.")],
    as_json: JsonFlag = False,
) -> None:
    """Check template files. Exits with 1 if one of them is not valid."""
    reports = [_report(file) for file in files]
    if as_json:
        print_json(reports)
    else:
        for report in reports:
            _print_report(report)
    if any(report["error"] for report in reports):
        raise typer.Exit(1)


def _loader(folders: list[Path] | None) -> TemplateLoader:
    loader = TemplateLoader(folders or [])
    for folder in loader.dirs:
        if not folder.is_dir():
            print_note(f"{folder}: no such folder")
    return loader


def _as_dict(template: Template) -> dict[str, Any]:
    return {
        "name": template.name,
        "source": template.source,
        "sha256": template.sha256,
        "description": template.description,
        "placeholders": list(template.placeholders),
        "sections": list(template.sections),
        "contract": template.contract,
    }


def _as_row(listed: Listed) -> dict[str, Any]:
    found = _as_dict(listed.template) if listed.template else {}
    return {
        "name": listed.name,
        "source": listed.source,
        **found,
        "problem": listed.problem,
        "shadowed_by": listed.shadowed_by,
    }


def _about(listed: Listed) -> str:
    # The path has a column of its own.
    problem = listed.problem.removeprefix(f"{listed.source}:").strip()
    about = listed.template.description if listed.template else problem
    if about[:1].isdigit() and not listed.template:
        about = f"line {about}"
    return f"{about}\n(hidden by the first {listed.name})" if listed.shadowed_by else about


def _report(file: Path) -> dict[str, Any]:
    """What is wrong with a file, and what an author should look at."""
    report: dict[str, Any] = {"file": str(file), "error": "", "warnings": [], "template": None}
    try:
        template = read_template(file)
    except InvalidInput as error:
        return report | {"error": str(error)}
    warned = [f"{file}:{line}: {what}" for line, what in warnings(template)]
    try:
        template_name(file.stem)
    except InvalidInput as error:
        warned.append(f"{file}: cannot be loaded by name: {error}")
    if file.suffix != ".md":
        warned.append(f"{file}: cannot be loaded by name: a template's file ends with .md")
    return report | {"warnings": warned, "template": _as_dict(template)}


def _print_report(report: dict[str, Any]) -> None:
    if report["error"]:
        print_line(f"✗ {report['error']}", "red")
        return
    found = report["template"]
    facts = [count(len(found["sections"]), "section")]
    facts.append(count(len(found["placeholders"]), "placeholder"))
    facts += ["a contract"] if found["contract"] is not None else []
    print_line(f"✓ {report['file']}: {', '.join(facts)}", "green")
    for warned in report["warnings"]:
        print_line(f"! {warned}", "yellow")
