"""Writes deploy/observability from the instruments; with ``--check`` it only compares.

An alert is a line here: its condition, and the row of docs/operations.md that says what to do.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from turnmill import telemetry as agent
from turnmill.telemetry import Instrument
from turnmill_worker import telemetry as worker

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "deploy" / "observability"
PAGE: Final = "docs/operations.md, When it breaks"
JOB: Final = 'job=~"turnmill.*"'


def n(instrument: Instrument, *labels: str, part: str = "") -> str:
    """A name, with conditions on labels; of a histogram a part: count, sum or bucket."""
    if odd := {re.split(r"\W", each)[0] for each in labels} - {*instrument.labels}:
        sys.exit(f"{instrument.name} has no labels {odd}")
    told = f"{{{', '.join(labels)}}}" if labels else ""
    return f"{instrument.prometheus}{'_' if part else ''}{part}{told}"


def rate(name: str, by: str = "", over: str = "5m") -> str:
    """Per second, over all workers."""
    return f"sum{f' by ({by})' if by else ''} (rate({name}[{over}]))"


def most(name: str, by: str = "") -> str:
    """Every worker tells the same of all together: one of them is enough."""
    return f"max{f' by ({by})' if by else ''} ({name})"


def quantile(share: float, instrument: Instrument, by: str = "") -> str:
    """So much of them takes no longer."""
    labels = ", ".join(filter(None, ("le", by)))
    return f"histogram_quantile({share}, {rate(n(instrument, part='bucket'), labels)})"


STATE: Final = 'state="%s"'
READS: Final = rate(n(agent.CALLS, 'operation=~"read|step"', part="count"))
CUT_TO_FIT: Final = 'projected="true"'
# Where none was cut there is no such series.
CUT: Final = f"({rate(n(agent.CALLS, CUT_TO_FIT, part='count'))} or vector(0))"
WRITTEN: Final = rate(n(worker.COMPACTIONS, 'summarizer!~"none|extractive"'))
# An endpoint that is away has written no answer that could be refused.
REFUSED: Final = rate(
    n(worker.FAILED, 'why!~"Summarizer.*|RateLimited|CircuitOpen|Endpoint.*|stale"')
)
QUALITY: Final = (
    f"{rate(n(worker.QUALITY, part='sum'), over='15m')}"
    f" / {rate(n(worker.QUALITY, part='count'), over='15m')}"
)
PARKED: Final = f"sum ({most(n(worker.SESSIONS, STATE % 'parked'), 'namespace')})"
ERRORS: Final = rate(n(worker.JOBS, 'error_type!=""', part="count"), "task, error_type")
BEFORE, AFTER = (rate(n(worker.TOKENS, f'when="{when}"')) for when in ("before", "after"))


class Alert(NamedTuple):
    """One alert; ``row`` begins a row of the table in ``PAGE``."""

    name: str
    when: str
    lasts: str
    severity: str
    told: str
    row: str


ALERTS: Final = (
    Alert(
        "WorkerDown",
        # Where targets are looked up, one that is gone is none: of all that are gone, nobody tells.
        # One that takes the place of the only one is scraped a minute later.
        f"up{{{JOB}}} == 0 or absent_over_time(up{{{JOB}}}[3m])",
        "15s",
        "critical",
        "A worker or server does not answer{{ with $labels.instance }} at {{ . }}{{ end }}",
        "`doctor`: workers, none answered",
    ),
    Alert(
        "RedisDown",
        f"{most(n(worker.REDIS))} == 0",
        "15s",
        "critical",
        "No worker reaches the state store",
        "`StoreUnavailable`",
    ),
    Alert(
        "RedisFull",
        f"{most(n(worker.MEMORY))} > 0.9",
        "15s",
        "critical",
        "Redis uses {{ $value | humanizePercentage }} of maxmemory",
        "`StoreFull`",
    ),
    Alert(
        "BacklogOld",
        f"{most(n(worker.BACKLOG))} > 60",
        "30s",
        "warning",
        "A session has waited {{ $value | humanizeDuration }} to be counted",
        "`doctor`: backlog",
    ),
    Alert(
        "CompactionsLate",
        f"{most(n(worker.DUE))} > 30",
        "10s",
        "warning",
        "A session has been due to be compacted for {{ $value | humanizeDuration }}",
        "a session is over its limit, and nothing happens",
    ),
    Alert(
        "ReadsCut",
        f"{CUT} / {READS} > 0.05",
        "5m",
        "warning",
        "{{ $value | humanizePercentage }} of the reads were cut to fit",
        "`context.projection` is often set",
    ),
    Alert(
        "SessionsParked",
        f"{PARKED} > 0",
        "1m",
        "warning",
        "{{ $value }} sessions are parked",
        "… *parked*",
    ),
    Alert(
        "BreakerOpen",
        f"{most(n(worker.BREAKER), 'model, endpoint')} == 1",
        "10s",
        "warning",
        "{{ $labels.model }} at {{ $labels.endpoint }} does not answer",
        "`doctor`: model, breaker open",
    ),
    Alert(
        "SummariesRefused",
        f"{REFUSED} / ({REFUSED} + ({WRITTEN} or vector(0))) > 0.5",  # it may have written none
        "5m",
        "warning",
        "{{ $value | humanizePercentage }} of the models' summaries are refused",
        "`history`: failed before",
    ),
    Alert(
        "ArchiveLate",
        f"{most(n(worker.ARCHIVE))} > 30",
        "10s",
        "warning",
        "Covered turns have waited {{ $value | humanizeDuration }} for the archive",
        "`doctor`: archiving",
    ),
    Alert(
        "QualityLow",
        f"{QUALITY} < 0.6",
        "10m",
        "warning",
        "Contexts committed have a mean quality of {{ $value | humanize }}",
        "`history`: failed before",
    ),
    Alert(
        "JobsFail",
        f"{ERRORS} > 0.1",
        "2m",
        "warning",
        "{{ $labels.task }} fails with {{ $labels.error_type }}",
        "log: `failed`; Flower: FAILURE",
    ),
)


def rules() -> str:
    """The alerts as Prometheus reads them."""
    lines = ["# Written by tools/observability.py (`make pages`).", "groups:", "  - name: turnmill"]
    lines.append("    rules:")
    for each in ALERTS:
        lines += [
            f"      - alert: Turnmill{each.name}",
            f"        expr: {json.dumps(each.when)}",
            f"        for: {each.lasts}",
            f"        labels: {{severity: {each.severity}}}",
            "        annotations:",
            f"          summary: {json.dumps(each.told)}",
            f"          runbook: {json.dumps(f'{PAGE}: {each.row}', ensure_ascii=False)}",
        ]
    return "\n".join([*lines, ""])


class Panel(NamedTuple):
    """A picture: each line's legend and expression."""

    title: str
    unit: str
    lines: dict[str, str]


def _states(*states: str) -> dict[str, str]:
    named = {state: most(n(worker.SESSIONS, STATE % state), "namespace") for state in states}
    return {state: f"sum ({each})" for state, each in named.items()}


PANELS: Final = (
    Panel(
        "Calls of agents", "ops", {"{{operation}}": rate(n(agent.CALLS, part="count"), "operation")}
    ),
    Panel(
        "What they take, p50 and p99",
        "s",
        {f"{{{{operation}}}} p{q}": quantile(q / 100, agent.CALLS, "operation") for q in (50, 99)},
    ),
    Panel(
        "Requests to the server",
        "ops",
        {
            "{{method}} {{route}} {{status}}": rate(
                n(agent.REQUESTS, part="count"), "method, route, status"
            )
        },
    ),
    Panel("Reads that were cut to fit", "percentunit", {"share": f"{CUT} / {READS}"}),
    Panel(
        "Oldest that wait",
        "s",
        {"to be counted": most(n(worker.BACKLOG)), "to be compacted": most(n(worker.DUE))},
    ),
    Panel(
        "Sessions that wait", "short", _states("backlog", "due", "later", "parked", "unarchived")
    ),
    Panel("Sessions over a limit", "short", _states("over_soft", "over_hard")),
    Panel("Messages in queues", "short", {"{{queue}}": most(n(worker.QUEUES), "queue")}),
    Panel(
        "Jobs by outcome",
        "ops",
        {
            "{{task}} {{outcome}}{{error_type}}": rate(
                n(worker.JOBS, part="count"), "task, outcome, error_type"
            )
        },
    ),
    Panel("Jobs, p95", "s", {"{{task}}": quantile(0.95, worker.JOBS, "task")}),
    Panel(
        "Compactions",
        "ops",
        {
            "{{strategy}} {{summarizer}} {{trigger}}": rate(
                n(worker.COMPACTIONS), "strategy, summarizer, trigger"
            )
        },
    ),
    Panel("Tokens left of a context", "percentunit", {"share": f"{AFTER} / {BEFORE}"}),
    Panel("Quality of what is committed", "none", {"mean": QUALITY}),
    Panel("Summaries not written, or refused", "ops", {"{{why}}": rate(n(worker.FAILED), "why")}),
    Panel("Models' statements, by check", "ops", {"{{what}}": rate(n(worker.ITEMS), "what")}),
    Panel(
        "Calls of models",
        "ops",
        {"{{model}} {{error_type}}": rate(n(worker.MODEL, part="count"), "model, error_type")},
    ),
    Panel("Models, p95", "s", {"{{model}}": quantile(0.95, worker.MODEL, "model")}),
    Panel(
        "Breakers open",
        "short",
        {"{{model}} {{endpoint}}": most(n(worker.BREAKER), "model, endpoint")},
    ),
    Panel(
        "Models' tokens",
        "short",
        {"{{model}} {{type}}": rate(n(worker.MODEL_TOKENS), "model, type")},
    ),
    Panel(
        "Models' cost in an hour",
        "currencyUSD",
        {"{{model}}": f"3600 * {rate(n(worker.COST), 'model', over='1h')}"},
    ),
    Panel("Archive's lag", "s", {"lag": most(n(worker.ARCHIVE))}),
    Panel("Redis' memory", "percentunit", {"of maxmemory": most(n(worker.MEMORY))}),
    Panel("Workers that answer", "short", {"up": f"sum (up{{{JOB}}})"}),
)
WIDE, HIGH, ACROSS = 8, 7, 3


def dashboard() -> str:
    """The panels as Grafana imports them."""
    panels = [_drawn(at, panel) for at, panel in enumerate(PANELS)]
    made = {
        "title": "turnmill",
        "uid": "turnmill",
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus"}]},
        "panels": panels,
    }
    # A panel a line: a change of one is seen as one.
    head = json.dumps({**made, "panels": []})[: -len("[]}")]
    body = ",\n".join(json.dumps(panel, ensure_ascii=False) for panel in panels)
    return f"{head}[\n{body}\n]}}\n"


def _drawn(at: int, panel: Panel) -> dict[str, Any]:
    return {
        "id": at + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "gridPos": {"x": at % ACROSS * WIDE, "y": at // ACROSS * HIGH, "w": WIDE, "h": HIGH},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "legendFormat": legend, "expr": expression}
            for number, (legend, expression) in enumerate(panel.lines.items())
        ],
    }


FILES: Final = {"alerts.yml": rules, "dashboard.json": dashboard}


def main() -> None:
    """Write the files, or say which is not what it should be."""
    for name, made in FILES.items():
        file = FOLDER / name
        if "--check" not in sys.argv:
            file.write_text(made(), encoding="utf-8")
        elif file.read_text(encoding="utf-8") != made():
            sys.exit(f"{file.relative_to(ROOT)} is not what it should be: make pages")


if __name__ == "__main__":
    main()
