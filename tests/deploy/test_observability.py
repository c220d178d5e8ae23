"""Dashboard and alerts are those of the instruments, and each alert fires when it should."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tools.observability import ALERTS, FILES, FOLDER, ROOT
from turnmill.telemetry import INSTRUMENTS as OF_AGENTS
from turnmill_worker.telemetry import INSTRUMENTS as OF_WORKERS
from turnmill_worker.telemetry import NAMESPACES

INSTRUMENTS = (*OF_AGENTS, *OF_WORKERS)

needs_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool here")


@pytest.mark.parametrize("name", FILES)
def test_the_files_are_what_is_made_of_the_instruments(name: str) -> None:
    assert (FOLDER / name).read_text() == FILES[name](), "make pages"


def test_every_instrument_is_on_the_dashboard_or_in_an_alert() -> None:
    shown = "".join((FOLDER / name).read_text() for name in FILES)
    quiet = {NAMESPACES.name, "turnmill.client.turns"}

    assert not [i for i in INSTRUMENTS if i.prometheus not in shown and i.name not in quiet]


def test_the_dashboard_can_be_read() -> None:
    board = json.loads((FOLDER / "dashboard.json").read_text())

    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    assert all(target["expr"] for panel in board["panels"] for target in panel["targets"])


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_each_alert_names_a_row_that_says_what_to_do(alert: object) -> None:
    _, _, rest = (ROOT / "docs" / "operations.md").read_text().partition("## When it breaks")
    rows = rest.partition("\n## ")[0].splitlines()

    row = getattr(alert, "row", "")
    assert [each for each in rows if each.startswith(f"| {row}")], row


JOBS = 'turnmill_job_duration_seconds_count{task="archive",error_type="ArchiveUnavailable"}'
CALLS = 'turnmill_client_duration_seconds_count{operation="read",projected="%s"}'
SCORES = "turnmill_compaction_quality_%s"
UP = {'up{job="turnmill",instance="a"}': "1x60"}
FIRING = {
    "WorkerDown": {'up{job="turnmill",instance="a"}': "0x60"},
    "RedisDown": {'turnmill_redis_up{instance="a"}': "0x60"},
    "RedisFull": {"turnmill_redis_memory_ratio": "0.95x60"},
    "BacklogOld": {"turnmill_backlog_age_seconds": "61x60"},
    "CompactionsLate": {"turnmill_due_age_seconds": "31x60"},
    "ReadsCut": {CALLS % "true": "0+1x60", CALLS % "false": "0+9x60"},
    "SessionsParked": {'turnmill_sessions{state="parked",namespace="a"}': "1x60"},
    "BreakerOpen": {'turnmill_model_breaker{model="m",endpoint="e"}': "1x60"},
    "SummariesRefused": {'turnmill_summaries_failed_total{why="UnusableSummary"}': "0+1x60"},
    "ArchiveLate": {"turnmill_archive_lag_seconds": "31x60"},
    "QualityLow": {SCORES % "sum": "0+5x60", SCORES % "count": "0+10x60"},
    "JobsFail": {JOBS: "0+9x60"},
}
"""By alert, what is wrong for an hour."""

FINE = {
    **UP,
    'turnmill_redis_up{instance="a"}': "0x60",
    'turnmill_redis_up{instance="b"}': "1x60",
    "turnmill_redis_memory_ratio": "0.5x60",
    "turnmill_backlog_age_seconds": "5x60",
    "turnmill_due_age_seconds": "25x60",
    CALLS % "true": "0+1x60",
    CALLS % "false": "0+99x60",
    'turnmill_sessions{state="parked",namespace="a"}': "0x60",
    'turnmill_model_breaker{model="m",endpoint="e"}': "0x60",
    'turnmill_summaries_failed_total{why="SummarizerUnavailable"}': "0+9x60",
    'turnmill_summaries_failed_total{why="UnusableSummary"}': "0+1x60",
    'turnmill_compactions_total{summarizer="gpt-5-mini"}': "0+9x60",
    "turnmill_archive_lag_seconds": "5x60",
    SCORES % "sum": "0+9x60",
    SCORES % "count": "0+10x60",
    JOBS: "0+1x60",
}


ALERTS_FIRING = 'ALERTS{alertstate="firing",alertname="Turnmill%s"}'


def ends_well(folder: Path, series: dict[str, str], expected: list[str]) -> None:
    """Have promtool say that of all alerts these alone fire after half an hour."""
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": told} for name, told in series.items()],
        "promql_expr_test": [
            {
                "expr": f"count by (alertname) ({ALERTS_FIRING % a.name})",
                "eval_time": "30m",
                "exp_samples": [{"labels": f'{{alertname="Turnmill{a.name}"}}', "value": 1}]
                if a.name in expected
                else [],
            }
            for a in ALERTS
        ],
    }
    file = folder / "tests.yml"
    told = {
        "rule_files": [str(FOLDER / "alerts.yml")],
        "evaluation_interval": "1m",
        "tests": [case],
    }
    file.write_text(yaml.safe_dump(told))
    done = subprocess.run(
        ["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_promtool_takes_the_rules() -> None:
    subprocess.run(["promtool", "check", "rules", str(FOLDER / "alerts.yml")], check=True)


@needs_promtool
@pytest.mark.parametrize("alert", [alert.name for alert in ALERTS])
def test_each_alert_fires_alone(alert: str, tmp_path: Path) -> None:
    ends_well(tmp_path, UP | FIRING[alert], [alert])


@needs_promtool
def test_that_nobody_is_there_is_told_too(tmp_path: Path) -> None:
    ends_well(tmp_path, {"turnmill_backlog_age_seconds": "5x60"}, ["WorkerDown"])


@needs_promtool
def test_a_worker_that_takes_the_place_of_the_only_one_is_awaited(tmp_path: Path) -> None:
    ends_well(tmp_path, {'up{job="turnmill",instance="old"}': "1x28 stale"}, [])


@needs_promtool
def test_no_alert_fires_while_all_is_well(tmp_path: Path) -> None:
    ends_well(tmp_path, FINE, [])
