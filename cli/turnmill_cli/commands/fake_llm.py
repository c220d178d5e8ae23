"""``turnmill fake-llm``: a model endpoint for demos and tests, without a model; not in the help."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from turnmill.contract.errors import InvalidInput

if TYPE_CHECKING:
    from turnmill.testing import Fault

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="fake-llm", hidden=True)(fake_llm)


def fake_llm(
    *,
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 8099,
    latency: Annotated[
        int, typer.Option(min=0, metavar="MS", help="How long each answer takes.")
    ] = 800,
    fault: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=SHARE", help="Answer so with this probability; repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Makes chance repeatable.")] = 0,
    key: Annotated[str, typer.Option(help="The only key it accepts; any when empty.")] = "",
    model: Annotated[
        list[str] | None, typer.Option(help="A model it has; any when none is named.")
    ] = None,
) -> None:
    """Serve the OpenAI API on loopback: sections filled from the input, and faults on demand."""
    from turnmill.testing import FakeEndpoint  # noqa: PLC0415
    from turnmill_cli.output import print_note  # noqa: PLC0415

    endpoint = FakeEndpoint(
        latency_s=latency / 1000,
        faults=_shares(fault or []),
        seed=seed,
        key=key,
        models=model or (),
        port=port,
    )
    with endpoint:
        # For scripts: the one line on stdout is the URL.
        typer.echo(endpoint.base_url)
        print_note("Ctrl-C ends it.")
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            print_note(f"{len(endpoint.requests)} requests, at most {endpoint.peak} at a time.")


def _shares(given: list[str]) -> dict[Fault, float]:
    from turnmill.testing import FAULTS  # noqa: PLC0415

    known = {str(name): name for name in FAULTS}
    found: dict[Fault, float] = {}
    for item in given:
        name, _, share = item.partition("=")
        try:
            found[known[name]] = float(share or "1")
        except (KeyError, ValueError):
            raise InvalidInput(
                f"--fault: must be NAME=SHARE with a name of {', '.join(FAULTS)}"
            ) from None
    if sum(found.values()) > 1 or min(found.values(), default=0) < 0:
        raise InvalidInput(f"--fault: shares add up to {sum(found.values()):g}; at most 1 allowed")
    return found
