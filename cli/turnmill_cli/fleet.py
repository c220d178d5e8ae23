"""The whole fleet at a glance: ``turnmill top``, and what it costs: ``turnmill usage``."""

from __future__ import annotations

import textwrap
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from turnmill.client.bills import FIELDS, Record, bills_of, compactions_in, fields_of, summed
from turnmill.contract.names import SessionId
from turnmill.contract.plural import count
from turnmill.contract.results import Bill
from turnmill_cli.options import AllNamespaces, Connection, JsonFlag, views_of_all
from turnmill_cli.output import (
    clean,
    needing,
    print_json,
    print_rows,
    stdout,
)

if TYPE_CHECKING:
    from turnmill_cli.broker_view import BrokerView
    from turnmill_cli.redis_view import Positions, RedisView

# --- usage ----------------------------------------------------------------------------------------


def _money(bill: Bill) -> str:
    return f"${bill.cost_usd:,.4f}" + (f" + {bill.unpriced:,} unpriced" if bill.unpriced else "")


_BILL: Mapping[str, Callable[[Bill], Any]] = {
    "compactions": attrgetter("compactions"),
    "saved": attrgetter("tokens_saved"),
    "prompt": attrgetter("prompt_tokens"),
    "completion": attrgetter("completion_tokens"),
    "cost": _money,
}


def usage(
    connection: Connection,
    by: Annotated[
        str, typer.Option(metavar="FIELDS", help=f"Any of {', '.join(FIELDS)}, with commas.")
    ] = "namespace,day",
    everywhere: AllNamespaces = False,
    as_json: JsonFlag = False,
) -> None:
    """Sum up what compactions saved and cost: tokens, and money at list price. Days are UTC's.

    Of the sessions that are in Redis, the newest thousand compactions of each.
    """
    from turnmill.client._sync.client import ContextClient  # noqa: PLC0415 - slow to import
    from turnmill.hint.waker import SilentWaker  # noqa: PLC0415 - as above

    names, found = fields_of(by), list[Bill]()
    with connection.redis() as view:
        for each in views_of_all(view) if everywhere else [view]:
            client = ContextClient(each.client, namespace=each.namespace, broker=SilentWaker())
            found += client.usage(by)
    here = f" in namespace {connection.namespace}; `turnmill usage -A` sums up those of all"
    print_rows(
        summed(found, names),
        {**{name: attrgetter(name) for name in names}, **_BILL},
        none=f"no compactions{'' if everywhere else here}",
        as_json=(lambda bill: bill.model_dump(exclude_none=True)) if as_json else None,
    )


# --- top ------------------------------------------------------------------------------------------

MOST_SESSIONS = 1_000
"""Sessions of a namespace whose compactions are looked at: those that were pushed to last."""

MOST_COMMITS = 50
MOST_COUNTED = 10_000
"""Sessions whose turns are counted at a look: those that were pushed to last."""

FIRST_LOOK_S = 1.0
"""Between a look that only turns are counted from, and the first that is shown."""

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

    turns = Turns()
    console = stdout()
    is_live = console.is_terminal and not (once or as_json)
    live = Live(console=console, auto_refresh=False, screen=True) if is_live else None
    with connection.redis() as view, closing(BrokerView(connection.broker, timeout_s=1)) as broker:
        if live:
            live.start()
        try:
            turns.look(*_pushed(view, minutes))
            time.sleep(FIRST_LOOK_S)
            while True:
                found = look(view, broker, minutes, turns)
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


Pushed = list[tuple["RedisView", list[tuple[SessionId, float]]]]
"""By namespace, the sessions that were pushed to, and when last, in ms; the newest first."""


def _pushed(view: RedisView, minutes: int) -> tuple[int, Pushed]:
    """What was pushed to within so many minutes of now, in ms."""
    from turnmill.connection.transport import redis_now_ms  # noqa: PLC0415 - slow

    now_ms = redis_now_ms(view.client)
    since_ms = now_ms - minutes * _MINUTE_MS
    listed = [(each, each.newest_sessions()) for each in views_of_all(view)]
    return now_ms, [(v, [each for each in some if each[1] >= since_ms]) for v, some in listed]


class Turns:
    """Counts turns from look to look, by how far sessions have come: no push writes for it."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], Positions] = {}
        self._looks: list[tuple[int, int]] = []

    def look(self, now_ms: int, pushed: Pushed) -> float:
        """Turns a minute, over the last minute or since the first look."""
        since_ms, turns = self._looks[-1] if self._looks else (now_ms, 0)
        room, before, self._seen = MOST_COUNTED, self._seen, {}
        for view, listed in pushed:
            names = [name for name, _ in listed[:room]]
            room -= len(names)
            for name, found in view.positions(names).items():
                key = view.namespace, name
                self._seen[key] = found
                turns += _came(before.get(key), found, since_ms) if self._looks else 0
        recent = [each for each in self._looks if each[0] > now_ms - _MINUTE_MS]
        self._looks = [*(recent or self._looks[-1:]), (now_ms, turns)]
        first_ms, first = self._looks[0]
        return (turns - first) * _MINUTE_MS / max(now_ms - first_ms, 1)


def _came(before: Positions | None, found: Positions, since_ms: int) -> int:
    """How many turns came to a session since it was seen."""
    if before and before.epoch == found.epoch:
        return found.last_seq - before.last_seq
    # It began meanwhile: the epoch says when, in µs. Or it was quiet for long, and goes on.
    began_ms = int(found.epoch) / 1000 if found.epoch.isdigit() else 0
    return found.last_seq if began_ms >= since_ms else 1


def look(view: RedisView, broker: BrokerView, minutes: int, turns: Turns) -> dict[str, Any]:
    """The fleet in numbers, as JSON has it."""
    from turnmill_cli.doctor.checks import check_models  # noqa: PLC0415 - slow

    now_ms, pushed = _pushed(view, minutes)
    views = [each for each, _ in pushed]
    records = _records(pushed, now_ms - minutes * _MINUTE_MS)
    bills = [bill for record in records for bill in bills_of(view.namespace, record)]
    models = [check for check in check_models(view) if check.name.startswith("model ")]
    failed = Counter(why for record in records for why in record.get("failed", ()))
    return {
        "at_ms": now_ms,
        "minutes": minutes,
        "namespaces": len(views),
        "turns_per_minute": round(turns.look(now_ms, pushed), 1),
        "commits_last_minute": sum(each["at_ms"] > now_ms - _MINUTE_MS for each in records),
        **_waiting(view, views),
        **_asked(broker),
        "compactions": {
            "by_strategy": Counter(each.get("strategy", "") for each in records),
            "by_writer": Counter(each.get("model", "") or "none needed" for each in records),
            "failed_before": failed,
        },
        "bill": summed(bills, ())[0].model_dump(exclude_none=True),
        "models": {
            each.name.removeprefix("model "): {"state": each.found, "ok": each.status == "ok"}
            for each in models
        },
    }


def _records(pushed: Pushed, since_ms: int) -> list[Record]:
    found: list[Record] = []
    for view, listed in pushed:
        names = [name for name, _ in listed[:MOST_SESSIONS]]
        found += view.newest_compactions(names, MOST_COMMITS)
    return [record for record in compactions_in(found) if record["at_ms"] >= since_ms]


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
        "due_age_s": oldest_s[telemetry.DUE.name],
        "archive_lag_s": oldest_s[telemetry.ARCHIVE.name],
    }


def _asked(broker: BrokerView) -> dict[str, Any]:
    """Queues and workers; of a broker that does not answer, that it does not."""
    try:
        workers = [{"node": node, "queues": queues} for node, queues in broker.consumers()]
        queues = {"queues": broker.waiting(), "queues_oldest_s": broker.oldest_s()}
    except Exception as error:  # noqa: BLE001 - any failure of any broker
        broker.disconnect()
        return {"broker": type(error).__name__, "queues": {}, "queues_oldest_s": {}, "workers": []}
    return {"broker": "ok", **queues, "workers": workers}


_HOLD = "\u00a0"
WIDEST = len("throughput  ")


def _drawn(found: Mapping[str, Any]) -> Group:
    """The numbers for a person."""
    bill, done = found["bill"], found["compactions"]
    at = datetime.fromtimestamp(found["at_ms"] / 1000, UTC).astimezone()
    lines = {
        "throughput": f"{found['turns_per_minute']:,.0f} turns a minute, "
        f"{count(found['commits_last_minute'], 'compaction')} in the last, "
        f"{bill['compactions']:,} in {found['minutes']:,} minutes",
        "sessions": _counts(found["sessions"]),
        "oldest": f"{found['backlog_age_s']:.1f} s in the backlog, {found['due_age_s']:.1f} s due, "
        f"{found['archive_lag_s']:.1f} s for the archive",
        "queues": _queues(found["queues"], found["queues_oldest_s"])
        if found["broker"] == "ok"
        else f"the broker does not answer ({found['broker']})",
        "strategies": _counts(done["by_strategy"]),
        "written by": _counts(done["by_writer"]),
        "failed": _counts(done["failed_before"]),
        "tokens": f"{bill['tokens_saved']:,} saved in each later call, "
        f"{bill['prompt_tokens']:,} read and {bill['completion_tokens']:,} written by models",
        "money": f"{_money(Bill(**bill))} spent",
        "models": "\n".join(f"{name}: {each['state']}" for name, each in found["models"].items()),
        "workers": "\n".join(
            f"{each['node']}: {', '.join(each['queues'])}" for each in found["workers"]
        ),
    }
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    # Between pairs of a name and a number, and not in one.
    fold = partial(textwrap.fill, width=stdout().width - WIDEST, break_on_hyphens=False)
    for name, text in lines.items():
        told = "\n".join(map(fold, text.splitlines())).replace(_HOLD, " ")
        is_bad = name == "models" and not all(each["ok"] for each in found["models"].values())
        is_bad = is_bad or (name == "queues" and found["broker"] != "ok")
        table.add_row(name, Text(clean(told) or "none", style="yellow" if is_bad else ""))
    title = f"turnmill top, {at:%H:%M:%S}, {count(found['namespaces'], 'namespace')}"
    return Group(Text(title), table)


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name}{_HOLD}{number:,}" for name, number in found.items())


def _queues(depths: Mapping[str, int], oldest_s: Mapping[str, float | None]) -> str:
    ages = {name: "" if not depth else _age(oldest_s[name]) for name, depth in depths.items()}
    return ", ".join(f"{name}{_HOLD}{depth:,}{ages[name]}" for name, depth in depths.items())


def _age(seconds: float | None) -> str:
    return _HOLD + ("(age not known)" if seconds is None else f"({seconds:,.1f}{_HOLD}s)")
