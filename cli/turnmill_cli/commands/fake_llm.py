"""``turnmill fake-llm``: a model endpoint for demos and tests, without a model; not in the help."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from turnmill.contract.errors import InvalidInput
from turnmill.contract.plural import count
from turnmill.testing import FAULTS, FakeEndpoint, Fault
from turnmill_cli.local.children import check_port
from turnmill_cli.options import CommandApp
from turnmill_cli.output import print_note

fake_llm_app = CommandApp()


@fake_llm_app.command("fake-llm", hidden=True)
def fake_llm(
    *,
    port: Annotated[int, typer.Option(help="0 chooses a free port.")] = 8099,
    latency: Annotated[
        int, typer.Option(min=0, metavar="MS", help="How long each answer takes.")
    ] = 800,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SHARE",
            help="Probability of a fault. Can be repeated.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Makes chance repeatable.")] = 0,
    key: Annotated[str, typer.Option(help="The only key it accepts. Empty: any key.")] = "",
    model: Annotated[list[str] | None, typer.Option(help="Models it has; any by default.")] = None,
) -> None:
    """Serve the OpenAI API on loopback: summaries made from the input, and faults on demand."""
    check_port(port)
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
            print_note(
                f"{count(len(endpoint.requests), 'request')}, at most {endpoint.peak} at a time."
            )


def _shares(given: list[str]) -> dict[Fault, float]:
    known = {str(name): name for name in FAULTS}
    found: dict[Fault, float] = {}
    for item in given:
        name, _, share = item.partition("=")
        try:
            found[known[name]] = float(share or "1")
        except (KeyError, ValueError):
            raise InvalidInput(
                f"--fault: must be NAME=SHARE; names are {', '.join(FAULTS)}"
            ) from None
    if sum(found.values()) > 1 or min(found.values(), default=0) < 0:
        raise InvalidInput(f"--fault: shares add up to {sum(found.values()):g}, more than 1")
    return found
