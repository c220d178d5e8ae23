"""The whole fleet at a glance: ``turnmill top``, and what it costs: ``turnmill usage``."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from turnmill_cli.options import AllNamespaces, Connection, JsonFlag, views_of_all
from turnmill_cli.output import WrongUsage, clean, needing, print_json, print_rows, stdout

if TYPE_CHECKING:
    from turnmill_cli.broker_view import BrokerView
    from turnmill_cli.redis_view import RedisView

Record = dict[str, Any]

# --- what compactions did and cost ----------------------------------------------------------------


@dataclass(slots=True)
class Bill:
    """Sums over compactions.

    Attributes:
        tokens_saved: tokens before less tokens after.
        unpriced: compactions whose model has no known price; ``cost_usd`` is without them.
    """

    compactions: int = 0
    tokens_saved: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0

    def add(self, record: Record) -> None:
        """One compaction more."""
        self.compactions += 1
        before = record.get("tokens_before", 0)  # a rollback counts none
        self.tokens_saved += before - record.get("tokens_after", 0) if before else 0
        self.prompt_tokens += record.get("prompt_tokens", 0)
        self.completion_tokens += record.get("completion_tokens", 0)
        cost_usd = record.get("cost_usd")
        self.cost_usd += cost_usd or 0.0
        self.unpriced += cost_usd is None and record.get("prompt_tokens", 0) > 0

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {name: getattr(self, name) for name in self.__slots__}


def billed(records: Iterable[Record]) -> Bill:
    """The sums."""
    found = Bill()
    for record in records:
        found.add(record)
    return found


# --- usage ----------------------------------------------------------------------------------------


def _day(record: Record) -> str:
    return datetime.fromtimestamp(record["at_ms"] / 1000, UTC).strftime("%Y-%m-%d")


_GROUPS: Mapping[str, Callable[[Record], str]] = {
    "namespace": lambda record: str(record["namespace"]),
    "day": _day,
    "session": lambda record: str(record.get("session", "")),
    "model": lambda record: record.get("model", "") or "none",
}


def usage(
    connection: Connection,
    by: Annotated[
        str, typer.Option(metavar="FIELDS", help=f"Any of {', '.join(_GROUPS)}, with commas.")
    ] = "namespace,day",
    everywhere: AllNamespaces = False,
    as_json: JsonFlag = False,
) -> None:
    """Sum up what compactions saved and cost: tokens, and money at list price. Days are UTC's.

    Of the sessions that are in Redis, the newest thousand compactions of each.
    """
    names = [name.strip() for name in by.split(",")]
    if unknown := [name for name in names if name not in _GROUPS]:
        raise WrongUsage(f"--by: no {', '.join(unknown)}, but {', '.join(_GROUPS)}")
    sums: dict[tuple[str, ...], Bill] = defaultdict(Bill)
    with connection.redis() as view:
        for each in views_of_all(view) if everywhere else [view]:
            listed = [name for name, _ in each.newest_sessions()]
            for record in each.newest_compactions(listed, 0):
                record["namespace"] = each.namespace
                sums[tuple(_GROUPS[name](record) for name in names)].add(record)
    rows = sorted(sums.items())
    columns: dict[str, Any] = {
        name: (lambda row, at=at: row[0][at]) for at, name in enumerate(names)
    }
    print_rows(
        rows,
        {**columns, **_BILL},
        none="no compactions",
        as_json=(lambda row: {**dict(zip(names, row[0], strict=True)), **row[1].as_dict()})
        if as_json
        else None,
    )


_BILL: Mapping[str, Any] = {
    "compactions": lambda row: row[1].compactions,
    "tokens saved": lambda row: row[1].tokens_saved,
    "prompt": lambda row: row[1].prompt_tokens,
    "completion": lambda row: row[1].completion_tokens,
    "cost": lambda row: _money(row[1]),
}


def _money(bill: Bill) -> str:
    return f"${bill.cost_usd:,.4f}" + (f" + {bill.unpriced:,} unpriced" if bill.unpriced else "")


# --- top ------------------------------------------------------------------------------------------

MOST_SESSIONS = 1_000
"""Sessions of a namespace whose compactions are looked at: those that were pushed to last."""

MOST_COMMITS = 50
_MINUTE_MS = 60_000


def top(
    connection: Connection,
    minutes: Annotated[int, typer.Option(min=1, help="How far to look back.")] = 60,
    every: Annotated[float, typer.Option(min=0.5, help="Seconds between two looks.")] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Watch the whole fleet: queues, sessions, compactions, models, money and workers.

    Looks at every namespace, until Ctrl-C. With --json it prints one line at each look.
    """
    from turnmill_cli.broker_view import BrokerView  # noqa: PLC0415 - slow, and the help needs none

    console = stdout()
    is_live = console.is_terminal and not (once or as_json)
    live = Live(console=console, auto_refresh=False, screen=True) if is_live else None
    with connection.redis() as view, closing(BrokerView(connection.broker, timeout_s=1)) as broker:
        if live:
            live.start()
        try:
            while True:
                found = look(view, broker, minutes)
                if as_json:
                    print_json(found)
                elif live:
                    live.update(_drawn(found), refresh=True)
                else:
                    console.print(_drawn(found))
                if once:
                    return
                time.sleep(every)
        finally:
            if live:
                live.stop()


def look(view: RedisView, broker: BrokerView, minutes: int) -> dict[str, Any]:
    """The fleet in numbers, as JSON has it."""
    from turnmill.connection.transport import redis_now_ms  # noqa: PLC0415 - slow
    from turnmill_cli.doctor.checks import check_models  # noqa: PLC0415 - slow

    now_ms = redis_now_ms(view.client)
    views = views_of_all(view)
    records = _records(views, now_ms - minutes * _MINUTE_MS)
    models = [check for check in check_models(view) if check.name.startswith("model ")]
    failed = Counter(why for record in records for why in record.get("failed", ()))
    return {
        "at_ms": now_ms,
        "minutes": minutes,
        "namespaces": len(views),
        "commits_last_minute": sum(each["at_ms"] > now_ms - _MINUTE_MS for each in records),
        **_waiting(view, views),
        **_asked(broker),
        "compactions": {
            "by_strategy": Counter(each.get("strategy", "") for each in records),
            "by_writer": Counter(each.get("model", "") or "none needed" for each in records),
            "failed_before": failed,
        },
        "bill": billed(records).as_dict(),
        "models": {
            each.name.removeprefix("model "): {"state": each.found, "ok": each.status == "ok"}
            for each in models
        },
    }


def _records(views: Sequence[RedisView], since_ms: int) -> list[Record]:
    found: list[Record] = []
    for view in views:
        listed = view.newest_sessions()[:MOST_SESSIONS]
        names = [name for name, at_ms in listed if at_ms >= since_ms]
        found += view.newest_compactions(names, MOST_COMMITS)
    return [record for record in found if record["at_ms"] >= since_ms]


def _waiting(view: RedisView, views: Sequence[RedisView]) -> dict[str, Any]:
    """Sessions by state, and for how long the oldest have waited, as metrics have them."""
    with needing("worker"):
        from turnmill_worker import telemetry  # noqa: PLC0415 - needs the extra worker
        from turnmill_worker.store.fleet import RedisFleet  # noqa: PLC0415 - as above

    states = Counter(all=sum(each.sizes("index")[0] for each in views))
    oldest_s: dict[str, float] = defaultdict(float)
    for gauge, labels, value in RedisFleet(view.client, lambda _: 0, (), archive=True).lists():
        if gauge == telemetry.SESSIONS.name:
            states[labels["state"]] += int(value)
        oldest_s[gauge] = max(oldest_s[gauge], value)
    return {
        "sessions": states,
        "backlog_age_s": oldest_s[telemetry.BACKLOG.name],
        "archive_lag_s": oldest_s[telemetry.ARCHIVE.name],
    }


def _asked(broker: BrokerView) -> dict[str, Any]:
    """Queues and workers; of a broker that does not answer, that it does not."""
    try:
        workers = [{"node": node, "queues": queues} for node, queues in broker.consumers()]
        return {"broker": "ok", "queues": broker.waiting(), "workers": workers}
    except Exception as error:  # noqa: BLE001 - any failure of any broker
        broker.disconnect()
        return {"broker": type(error).__name__, "queues": {}, "workers": []}


def _drawn(found: Mapping[str, Any]) -> Group:
    """The numbers for a person."""
    bill, done = found["bill"], found["compactions"]
    at = datetime.fromtimestamp(found["at_ms"] / 1000, UTC).astimezone()
    lines = {
        "throughput": f"{found['commits_last_minute']:,} compactions in the last minute, "
        f"{bill['compactions']:,} in {found['minutes']:,} minutes",
        "sessions": _counts(found["sessions"]),
        "oldest": f"{found['backlog_age_s']:.1f} s in the backlog, "
        f"{found['archive_lag_s']:.1f} s for the archive",
        "queues": _counts(found["queues"])
        if found["broker"] == "ok"
        else f"the broker does not answer ({found['broker']})",
        "strategies": _counts(done["by_strategy"]),
        "written by": _counts(done["by_writer"]),
        "failed": _counts(done["failed_before"]),
        "tokens": f"{bill['tokens_saved']:,} saved, {bill['prompt_tokens']:,} read and "
        f"{bill['completion_tokens']:,} written by models",
        "money": _money(Bill(**bill)),
        "models": "\n".join(f"{name}: {each['state']}" for name, each in found["models"].items()),
        "workers": "\n".join(
            f"{each['node']}: {', '.join(each['queues'])}" for each in found["workers"]
        ),
    }
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, told in lines.items():
        is_bad = name == "models" and not all(each["ok"] for each in found["models"].values())
        is_bad = is_bad or (name == "queues" and found["broker"] != "ok")
        table.add_row(name, Text(clean(told) or "none", style="yellow" if is_bad else ""))
    return Group(Text(f"turnmill top, {at:%H:%M:%S}, {found['namespaces']:,} namespaces"), table)


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in found.items())
