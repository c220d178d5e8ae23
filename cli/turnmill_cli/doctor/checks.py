"""All that `turnmill doctor` looks at, in the order in which one thing needs another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import redis

from turnmill.connection.transport import is_full, redis_now_ms
from turnmill.contract import jobs
from turnmill.contract.errors import CannotDecrypt, StoreRefused, TurnmillError, UnknownEncoding
from turnmill.contract.estimate import FILE, file_of
from turnmill.contract.job_outcomes import ASKED_AGAIN
from turnmill.contract.keys import session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill.contract.plural import count
from turnmill.contract.policy import OFFLINE
from turnmill.contract.scripts import load_script
from turnmill_cli.archive_database import ArchiveDatabase
from turnmill_cli.broker_view import BrokerView, is_refusal
from turnmill_cli.options import Connection, views_of_all
from turnmill_cli.output import (
    NO_REDIS,
    REDIS_REFUSES,
    CommandFailed,
    install,
    safe_url,
)
from turnmill_cli.redis_view import Positions, RedisView, unoffered
from turnmill_worker.failover.branches import Tip
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.templates import TemplateLoader, template_dirs
from turnmill_worker.tokens import counter_for

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Check:
    """One finding.

    Attributes:
        found: what is so.
        advice: what to do; empty when there is nothing to do.
    """

    name: str
    status: Status
    found: str
    advice: str = ""


def graded(
    name: str, found: str, advice: str, value: float, *, warning: float, problem: float
) -> Check:
    """A finding by how far a value is over its limits; it has no advice below both."""
    if value <= warning:
        return Check(name, "ok", found)
    return Check(name, "problem" if value > problem else "warning", found, advice)


# --- what somebody else wrote: in namespaces, to the broker ---------------------------------------

MOST_NAMESPACES = 5
RECENT_S = 24 * 3600


def check_namespaces(view: RedisView) -> Check:
    """Whether sweeps of the last minutes found a namespace damaged, and how."""
    found = view.troubled()
    if not found["count"]:
        return Check("namespaces", "ok", "sweeps found none damaged")
    named: Mapping[str, Mapping[str, Any]] = found["named"]
    told = "; ".join(f"{name}: {_damage(named[name])}" for name in sorted(named)[:MOST_NAMESPACES])
    more = found["count"] - min(len(named), MOST_NAMESPACES)
    told += f"; and {more:,} more" if more else ""
    advice = (
        "turnmill writes no such thing: find out who else writes there, delete a key of a wrong "
        "type, and change the password of that namespace's agents. Other namespaces do not wait"
    )
    told = f"{count(found['count'], 'namespace')} damaged: {told}"
    return Check("namespaces", "warning", told, advice)


def _damage(trouble: Mapping[str, Any]) -> str:
    parts = []
    if trouble["errors"]:
        parts.append(f"{trouble['why']} ({count(trouble['errors'], 'time')})")
    if trouble["dropped"]:
        parts.append(f"{count(trouble['dropped'], 'member')} that named no session dropped")
    return ", ".join(parts)


def check_quotas(view: RedisView) -> Check:
    """Which quotas of the namespace are used up, so that its clients are refused."""
    over = view.over_quota()
    if not over:
        return Check("quotas", "ok", f"none used up in namespace {view.namespace}")
    told = ", ".join(f"{used:,} of {most:,} {kind}" for kind, (used, most) in over.items())
    advice = (
        "forget sessions that are over, or raise the quota in the workers' TURNMILL_QUOTAS_FILE; "
        "see Operations, Quotas"
    )
    return Check("quotas", "warning", f"used up in namespace {view.namespace}: {told}", advice)


def check_quarantine(view: RedisView) -> Check:
    """How many messages of the broker workers put aside, and what the newest of them was."""
    total, newest = view.quarantined()
    if newest is None:
        return Check("messages", "ok", "workers put none aside")
    ago_s = max(redis_now_ms(view.client) - int(newest["at_ms"]), 0) / 1000
    found = (
        f"workers put {count(total, 'message')} aside, the newest {ago_s:,.0f} s ago: "
        f"{newest['why']}, {count(newest['size'], 'byte')} in queue {newest['queue']}"
    )
    if ago_s > RECENT_S:
        return Check("messages", "ok", found)
    advice = "who else writes to the broker? Agents may only add to its queues: deploy/acl"
    return Check("messages", "warning", found, advice)


# --- models ---------------------------------------------------------------------------------------

NEWEST = 16
"""Sessions per shard whose policies are looked at: those that were pushed to last."""

MOST_WORKERS = 3
_MINUTE_S = 60

_NO_MODEL = (
    "set TURNMILL_MODEL_KEY for each worker of the queue summarize and restart it; for another "
    "endpoint than OpenAI's, set TURNMILL_MODEL_URL too. Until then, the extractive summarizer is "
    "used instead"
)
_UNKNOWN = (
    "correct the summarizer of the policy, or install the package that offers it for each worker "
    "of the queue summarize and restart it. Until then, the extractive summarizer is used instead"
)
_NOT_OFFERED = "it has no summarizer "
_DOWN = (
    "is the endpoint up? It is tried again by itself; until it answers, the fallback model or the "
    "extractive summarizer is used instead"
)
_ADVICE = {
    "EndpointRefused": "correct TURNMILL_MODEL_KEY, the model's name or the quota, and restart the "
    "workers of the queue summarize; until then, the fallback model or the extractive summarizer "
    "is used instead",
    "RateLimited": "sessions wait while they have room. If this lasts, set "
    "TURNMILL_MODEL_REQUESTS_PER_MINUTE and TURNMILL_MODEL_TOKENS_PER_MINUTE below the limits of "
    "the endpoint",
}
"""What to do about a model, by the kind of its last failure."""


def check_summaries(view: RedisView) -> Check:
    """Whether workers can ask the summarizers that policies of sessions name."""
    newest = [name for name, _ in view.newest_sessions(NEWEST)]
    named = [name for name in view.summarizers_of(newest) if name != OFFLINE]
    asking = len(named)
    if not asking:
        found = f"no session of {view.namespace} asks for a model ({len(newest):,} looked at)"
        return Check("summaries", "ok", found)
    asked = f"{asking:,} of the {count(len(newest), 'newest session')} of {view.namespace} "
    asked += "asks for a model" if asking == 1 else "ask for a model"
    workers = view.summarizer_workers()
    problems = (
        (each["node"], _problem(each, name)) for each in workers for name in sorted({*named})
    )
    unable = {node: problem for node, problem in problems if problem}
    if not workers:
        found = f"{asked}; no worker consumes the queue summarize"
        return Check("summaries", "warning", found, "start one, with TURNMILL_MODEL_KEY set")
    if unable:
        what = f"{len(unable):,} of {count(len(workers), 'worker')} of summarize cannot ask one"
        unknown = any(problem.startswith(_NOT_OFFERED) for problem in unable.values())
        advice = _UNKNOWN if unknown else _NO_MODEL
        return Check("summaries", "warning", f"{asked}; {what}: {_listed(unable)}", advice)
    return Check("summaries", "ok", f"{asked}; {count(len(workers), 'worker')} can ask one")


def _problem(worker: Mapping[str, Any], name: str) -> str:
    """Why the worker cannot ask the summarizer of this name, or ``""``."""
    offered = worker.get("summarizers")
    if offered is None:  # of an older release, which says it of the one there was
        return str(worker.get("problem", ""))
    return str(offered.get(name, f"{_NOT_OFFERED}{name!r}, but {', '.join(sorted(offered))}"))


def _listed(unable: Mapping[str, str]) -> str:
    named = [f"{node} ({problem})" for node, problem in list(unable.items())[:MOST_WORKERS]]
    more = len(unable) - len(named)
    return ", ".join(named) + (f" and {more:,} more" if more else "")


_ABSENT = (
    "correct the policy, or give every worker of the queue summarize what it names. Until then, "
    "strategies are passed over, sessions whose template is absent lose turns without a summary, "
    "and those whose tokenizer is absent are not compacted"
)


def check_policies(view: RedisView) -> Check:
    """Whether workers have the strategies, templates and tokenizers that policies name."""
    policies = view.policies_of([name for name, _ in view.newest_sessions(NEWEST)])
    workers = view.summarizer_workers()
    absent = sorted({each for policy in policies for each in unoffered(policy, workers)})
    if absent:
        more = f" and {len(absent) - MOST_WORKERS:,} more" if len(absent) > MOST_WORKERS else ""
        told = "; ".join(absent[:MOST_WORKERS])
        return Check("policies", "warning", f"they name what is not there: {told}{more}", _ABSENT)
    found = f"{count(len(workers), 'worker')} of summarize have what those of the newest "
    return Check("policies", "ok", f"{found}sessions name")


MOST_COMMITS = 20
"""Of one session: the newest."""

FEW_ANSWERS = 3
"""So many may be refused by chance."""


def check_refused(view: RedisView) -> Check:
    """Whether most of what models answered was unfit, as the newest commits remember it."""
    records = view.newest_compactions(
        [name for name, _ in view.newest_sessions(NEWEST)], MOST_COMMITS
    )
    failed = (each for record in records for each in record.get("failed", ()))
    why = Counter(each for each in failed if each.startswith(_REFUSED))
    for record in records:
        items = record.get("items", {}).items()
        why.update({each: many for each, many in items if each.startswith(ASKED_AGAIN)})
    refused = why.total()
    fit = sum(record.get("model", "") not in ("", OFFLINE) for record in records)
    found = f"{refused:,} of {count(refused + fit, 'answer')} of models refused"
    if refused < FEW_ANSWERS or refused <= fit:
        return Check("answers", "ok", f"{found} in {view.namespace}")
    most = ", ".join(f"{each} ({n:,})" for each, n in why.most_common(3))
    advice = (
        "the model does not write what is asked of it, and is paid all the same: name a stronger "
        "one (TURNMILL_MODEL, or `model` in the policy); `turnmill history SESSION` has each answer"
    )
    return Check("answers", "warning", f"{found} in {view.namespace}: {most}", advice)


_REFUSED = ("UnusableSummary", "SummaryRejected", "below-quality")


def check_models(view: RedisView) -> Iterator[Check]:
    """How each model that was ever asked is doing."""
    now_s = redis_now_ms(view.client) / 1000
    return (_model(gate, now_s) for gate in view.model_gates() if "model" in gate)


def _model(gate: Mapping[str, str], now_s: float) -> Check:
    def left_s(field: str) -> float:
        return float(gate.get(field, 0)) / 1000 - now_s

    used = ""
    if int(gate.get("minute", 0)) == int(now_s // _MINUTE_S):
        requests, tokens = int(gate["requests"]), max(int(gate["tokens"]), 0)
        used = f"; {count(requests, 'request')} and {count(tokens, 'token')} in this minute"
    kind = gate.get("error", "")
    failure = f"{kind} ({gate['why']})" if gate.get("why") else kind
    if left_s("open_until") > 0:
        state = f"breaker open for another {left_s('open_until'):.0f} s after {failure}"
    elif left_s("probe_until") > 0:
        state = f"breaker probing after {failure}"
    elif "open_until" in gate:
        state = f"breaker open until the next call probes it, after {failure}"
    elif left_s("blocked_until") > 0:
        state = f"pauses for another {left_s('blocked_until'):.0f} s after {failure}"
    else:
        last = f"; last failure {failure} {-left_s('error_at'):,.0f} s ago" if failure else ""
        found = f"{gate['place']}: breaker closed{last}{used}"
        return Check(f"model {gate['model']}", "ok", found)
    found = f"{gate['place']}: {state}{used}"
    return Check(f"model {gate['model']}", "warning", found, _ADVICE.get(kind, _DOWN))


# --- Redis ----------------------------------------------------------------------------------------

OLDEST_REDIS = (6, 2)
SCRIPT_PACKAGES = ("turnmill.lua", "turnmill_worker.store.lua")
_MIB = 1024 * 1024

LOOKED_AT = 16
"""Sessions whose content the doctor tries to read."""


def check_redis(
    connection: Connection, *, is_archive_off: bool, everywhere: bool = False
) -> Iterator[Check]:
    """How Redis is configured, whether it runs the scripts, and what its keys say.

    Of the namespace, or ``everywhere`` of each.
    """
    try:
        with connection.redis() as view:
            for where, info in view.servers():
                for check in (_version, _eviction, _persistence, _memory):
                    yield _of(where, check(info))
            yield _scripts(view)
            views = views_of_all(view) if everywhere else [view]
            for look in (_backlog, _parked, partial(_unarchived, is_off=is_archive_off), _content):
                yield from _worst(map(look, views))
            yield check_namespaces(view)
            yield from _worst(map(check_quotas, views))
            yield check_quarantine(view)
            for look in (check_summaries, check_policies, check_refused):
                yield from _worst(map(look, views))
            yield from check_models(view)
    except StoreRefused as error:
        yield Check("redis", "problem", str(error), REDIS_REFUSES)
    except TurnmillError as error:
        yield Check("redis", "problem", str(error), NO_REDIS)


def _worst(found: Iterable[Check]) -> Iterator[Check]:
    """Those of the namespaces that are not well; where all are, one says so."""
    checks = list(found)
    unwell = [check for check in checks if check.status != "ok"]
    if unwell or len(checks) == 1:
        yield from unwell or checks
    elif checks:
        yield replace(checks[0], found=f"all well in {count(len(checks), 'namespace')}")


def _of(where: str, check: Check) -> Check:
    """The check, with the node of a Cluster it is about."""
    return replace(check, found=f"{where}: {check.found}") if where else check


def _version(info: dict[str, Any]) -> Check:
    version = str(info["redis_version"])
    parts = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if parts < OLDEST_REDIS:
        return Check("redis", "problem", f"version {version}", "upgrade to Redis 6.2 or newer")
    return Check("redis", "ok", f"version {version}")


def _eviction(info: dict[str, Any]) -> Check:
    policy = info["maxmemory_policy"]
    if policy == "noeviction":
        return Check("eviction", "ok", policy)
    advice = "set maxmemory-policy noeviction: any other policy deletes turns when memory is full"
    # Without a limit nothing is evicted yet.
    return Check("eviction", "problem" if info["maxmemory"] else "warning", policy, advice)


def _persistence(info: dict[str, Any]) -> Check:
    if not info["aof_enabled"]:
        advice = "set appendonly yes: a restart loses everything since the last snapshot"
        return Check("persistence", "warning", "no append-only file", advice)
    if info.get("aof_last_write_status", "ok") != "ok":
        advice = (
            "Redis refuses writes until this is fixed: look at its disk and its log; when there is "
            "room, run BGREWRITEAOF, or it may not start again"
        )
        return Check("persistence", "problem", "the last append failed", advice)
    return Check("persistence", "ok", "append-only file")


MORE_MEMORY = (
    "see that a worker archives: it frees memory. Else raise maxmemory, or shorten ttl_s in the "
    "policies"
)


def _memory(info: dict[str, Any]) -> Check:
    used, limit = int(info["used_memory"]), int(info["maxmemory"])
    if limit:
        found = f"{used // _MIB:,} of {limit // _MIB:,} MiB used"
        return graded("memory", found, MORE_MEMORY, used / limit, warning=0.75, problem=0.9)
    host = int(info.get("total_system_memory", 0))
    found = f"{used // _MIB:,} MiB used, no maxmemory, the host has {host // _MIB:,} MiB"
    share = used / host if host else 0.0
    # A rewrite of the append-only file forks, and may need as much again.
    return graded("memory", found, "set maxmemory, or add memory", share, warning=0.5, problem=1)


def _scripts(view: RedisView) -> Check:
    files = [
        (package, file.name.removesuffix(".lua"))
        for package in SCRIPT_PACKAGES
        for file in resources.files(package).iterdir()
        if file.name.endswith(".lua")
    ]
    for package, name in files:
        try:
            view.client.script_load(load_script(package, name).source)
        except redis.ResponseError:
            advice = "is this a real Redis, and may this user run SCRIPT?"
            return Check("scripts", "problem", f"{name}.lua is refused", advice)
    return Check("scripts", "ok", f"Redis accepts all {count(len(files), 'script')}")


def _backlog(view: RedisView) -> Check:
    waiting, oldest_s = view.waiting("backlog")
    if not waiting:
        return Check("backlog", "ok", f"empty in namespace {view.namespace}")
    found = f"{count(waiting, 'session')} waiting, the oldest for {oldest_s:.0f} s"
    advice = "start workers, or more of them; read their logs"
    return graded("backlog", found, advice, oldest_s, warning=10, problem=60)


def _content(view: RedisView) -> Check:
    """Whether the cipher here can read what agents and workers stored last."""
    newest = [name for name, _ in view.newest_sessions(1)][:LOOKED_AT]
    unreadable, why = 0, ""
    for name in newest:
        keys = session_keys(view.namespace, name)
        try:
            view.client.xrevrange(keys.log, count=1)
            view.client.get(keys.context)
        except CannotDecrypt as error:
            unreadable, why = unreadable + 1, str(error)
    if not unreadable:
        looked_at = count(len(newest), "session")
        return Check("content", "ok", f"can be read here ({looked_at} of {view.namespace})")
    found = f"{unreadable:,} of {count(len(newest), 'session')} of {view.namespace}: {why}"
    advice = (
        "give this command, and every worker, all keys that agents encrypt with; workers that lack "
        "one leave such sessions to others, and log `cannot decrypt`"
    )
    return Check("content", "warning", found, advice)


def _parked(view: RedisView) -> Check:
    [parked] = view.sizes("parked")
    if not parked:
        return Check("parked", "ok", f"no session of namespace {view.namespace}")
    advice = "`turnmill parked` says why; fix the cause, then run `turnmill retry --all`"
    found = f"{count(parked, 'session')} of {view.namespace}"
    return Check("parked", "warning", found, advice)


def _unarchived(view: RedisView, *, is_off: bool) -> Check:
    waiting, oldest_s = view.waiting("unarchived")
    if not waiting:
        return Check("archiving", "ok", f"nothing waits in namespace {view.namespace}")
    found = f"{count(waiting, 'session')} with turns to archive, for {oldest_s:.0f} s"
    if is_off:
        return Check("archiving", "ok", found)
    advice = (
        "start a worker with --queues archive and read its log. If the workers have "
        "TURNMILL_ARCHIVE_URL=none, this is normal: set it for this command too"
    )
    return graded("archiving", found, advice, oldest_s, warning=60, problem=600)


# --- the broker and its workers -------------------------------------------------------------------

TIMEOUT_S = 2.0
REFUSED = "correct --broker-url, or the password in --broker-password-file"


def check_broker(connection: Connection) -> Iterator[Check]:
    """Whether the broker answers, which workers do, and whether every queue is consumed."""
    url, is_own = connection.broker, bool(connection.broker_url)
    where = safe_url(url)
    try:
        with closing(BrokerView(url, timeout_s=TIMEOUT_S)) as broker:
            waiting = broker.waiting()
            yield Check("broker", "ok", f"{count(sum(waiting.values()), 'task')} waiting")
            consumers = broker.consumers()
    except ModuleNotFoundError as error:
        found = f"cannot be asked from here: Python has no module {error.name}"
        advice = "install it with pip, or use another kind of broker"
        yield Check("broker", "problem", found, advice)
        return
    except Exception as error:  # noqa: BLE001 - any failure of any broker
        if is_refusal(error):
            found = f"{where} refuses this client: its user, password or database is wrong"
            yield Check("broker", "problem", found, REFUSED if is_own else REDIS_REFUSES)
            return
        if is_full(error) or is_full(error.__cause__):
            found = f"{where} is at maxmemory: its workers cannot be asked"
            yield Check("broker", "problem", found, MORE_MEMORY)
            return
        advice = "start it, or correct --broker-url / TURNMILL_BROKER_URL" if is_own else NO_REDIS
        # Not its message: it may hold the URL with its password.
        yield Check(
            "broker", "problem", f"{where} does not answer ({type(error).__name__})", advice
        )
        return
    yield _workers(consumers)
    yield _queues(consumers)


Consumers = Sequence[tuple[str, list[str]]]


def _workers(consumers: Consumers) -> Check:
    if not consumers:
        advice = (
            "start them: `turnmill up`, or `celery -A turnmill_worker.app worker`. If some run, "
            "their TURNMILL_REDIS_URL or TURNMILL_BROKER_URL is another one"
        )
        return Check("workers", "problem", "none answered", advice)
    nodes = Counter(node for node, _ in consumers)
    if shared := [f"{node} ({number} workers)" for node, number in nodes.items() if number > 1]:
        advice = "start each with a name of its own: --hostname worker-1@%h, worker-2@%h, …; what "
        advice += "is told to one of them, all do or none, and Flower shows them as one"
        return Check("workers", "warning", f"share a name: {', '.join(sorted(shared))}", advice)
    return Check("workers", "ok", ", ".join(sorted(nodes)))


def _queues(consumers: Consumers) -> Check:
    served = {queue for _, queues in consumers for queue in queues}
    if idle := [queue for queue in jobs.QUEUES if queue not in served]:
        advice = f"start a worker with --queues {','.join(idle)}"
        return Check("queues", "problem", f"no worker consumes {', '.join(idle)}", advice)
    return Check("queues", "ok", f"all are consumed: {', '.join(jobs.QUEUES)}")


def check_vocabulary() -> Check:
    """Whether tokens are counted exactly, as far as that can be told from here."""
    basis = str(counter_for("o200k_base").basis)
    if basis.startswith("heuristic"):
        advice = f"{install('worker')} where the workers run: limits need exact counts"
        return Check("vocabulary", "warning", f"tokens are only estimated ({basis})", advice)
    return Check("vocabulary", "ok", f"tokens are counted exactly ({basis})")


# --- tokenizers -----------------------------------------------------------------------------------

_UNSEEN = "set TURNMILL_TOKENIZER_DIR for the workers, and here to have the files checked"
_UNUSABLE = (
    "correct the file or the policy: until then those sessions are not counted nor compacted"
)


def check_tokenizers(folder: str, connection: Connection) -> Iterator[Check]:
    """Whether the files can be used; nothing where there is no folder and no policy names one."""
    place = Path(folder) if folder else None
    named = _named(connection)
    present = {file.stem for file in place.glob("*.json")} if place else set()
    if place is None and not named:
        return
    problems = [why for name in sorted({*named, *present}) if (why := _file_problem(name, place))]
    if not problems:
        usable = count(len(present), "tokenizer")
        yield Check("tokenizers", "ok", f"{usable}, of which the newest sessions use {len(named)}")
    elif place is None:
        yield Check("tokenizers", "warning", "\n".join(problems), _UNSEEN)
    else:
        yield Check("tokenizers", "problem", "\n".join(problems), _UNUSABLE)


def _named(connection: Connection) -> set[str]:
    """The files that policies of the newest sessions name."""
    try:
        with connection.redis() as view:
            newest = [name for name, _ in view.newest_sessions(NEWEST)]
            return {file for each in view.encodings_of(newest) if (file := file_of(each))}
    except TurnmillError:  # the checks of Redis say why
        return set()


def _file_problem(name: str, folder: Path | None) -> str:
    try:
        counter_for(f"{FILE}{name}", folder=folder)
    except UnknownEncoding as error:
        return str(error)
    return ""


# --- the archive and templates --------------------------------------------------------------------

_NOBODY = SessionId("turnmill-doctor")


def check_archive(archive: ArchiveDatabase, namespace: Namespace) -> Check:
    """Whether the archive can be written, if it can be reached from here."""
    try:
        if not archive.url:
            return Check("archive", "ok", "turned off: covered turns stay in Redis")
    except CommandFailed:
        return Check("archive", "ok", "no worker here: run doctor where the workers run")
    if archive.is_absent:
        return Check("archive", "ok", f"none at {archive}: not needed yet, or kept elsewhere")
    from turnmill_worker.archive.database import revisions  # noqa: PLC0415 - needs the extra worker

    try:
        with archive.open() as opened:
            # A write that changes nothing: no session has begun before 1970.
            opened.forget_epochs(SessionRef(namespace, _NOBODY), through_epoch="0")
    except TurnmillError as error:
        advice = "covered turns wait in Redis: look at its disk, its permissions, or its server"
        return Check("archive", "problem", f"{archive}: {error}", advice)
    return Check("archive", "ok", f"{archive}: writable, schema {revisions()[-1]}")


def check_templates(folders: str) -> Check:
    """Whether the folders of templates exist, and every template in them is valid."""
    loader = TemplateLoader(template_dirs(folders))
    absent = [str(folder) for folder in loader.dirs if not folder.is_dir()]
    if absent:
        advice = "create it, or correct TURNMILL_TEMPLATE_DIRS"
        return Check("templates", "warning", f"no such folder: {', '.join(absent)}", advice)
    listed = loader.list()
    bad = [each.problem for each in listed if each.problem]
    if bad:
        advice = "`turnmill templates check FILE` says more; sessions that use it are not compacted"
        return Check("templates", "problem", "\n".join(bad), advice)
    usable = sum(not each.shadowed_by for each in listed)
    own = f", {count(len(loader.dirs), 'folder')} of your own" if loader.dirs else ""
    return Check("templates", "ok", f"{count(usable, 'template')}{own}")


# --- is Redis behind the archive? -----------------------------------------------------------------

SHOWN = 3
"""Sessions named."""


def check_positions(archive: ArchiveDatabase, connection: Connection) -> Iterator[Check]:
    """Whether a session's positions in Redis are behind the archive's; nothing without both."""
    try:
        if not archive.url or archive.is_absent:
            return
        # The archive first: what it has was in Redis before.
        with archive.open() as opened:
            tips = opened.tips(connection.check())
            lost = opened.lost(connection.check())
        with connection.redis() as view:
            present = view.positions(list(tips))
    except (CommandFailed, TurnmillError):  # the checks of both say why
        return
    if lost:
        yield _branches(lost)
    behind = _behind(tips, present)
    if not behind:
        yield Check("positions", "ok", "Redis is nowhere behind the archive")
        return
    named = ", ".join(
        f"{name} (turn {present[name].last_seq:,} of {tips[name].seq:,}, version "
        f"{present[name].version} of {tips[name].version})"
        for name in islice(behind, SHOWN)
    )
    more = f" and {len(behind) - SHOWN:,} more" if len(behind) > SHOWN else ""
    yield Check(
        "positions",
        "warning",
        f"Redis returned to an earlier state: {count(len(behind), 'session')} behind the archive: "
        f"{named}{more}",
        "`turnmill history SESSION` keeps apart what was lost, and says what; see Operations, "
        "“Where Redis may lose writes”",
    )


def _branches(lost: Mapping[SessionId, int]) -> Check:
    """What was lost and is kept; it stays, so nothing is to be done about it."""
    named = ", ".join(islice(lost, SHOWN)) + (", …" if len(lost) > SHOWN else "")
    found = f"the archive keeps what Redis once lost of {count(len(lost), 'session')} ({named}): "
    return Check("lost", "ok", f"{found}`turnmill archive lost SESSION` lists it")


def _behind(
    tips: Mapping[SessionId, Tip], present: Mapping[SessionId, Positions]
) -> Sequence[SessionId]:
    return [
        name
        for name, found in present.items()
        if found.epoch == tips[name].epoch
        and (found.last_seq < tips[name].seq or found.version < tips[name].version)
    ]


def every_check(
    connection: Connection,
    archive: ArchiveDatabase,
    template_dirs: str,
    tokenizer_dir: str,
    *,
    everywhere: bool = False,
) -> Iterator[Check]:
    """Each check's finding; what is about a namespace is of the connection's, or of each."""
    namespace = connection.check()
    is_off = archive.archive_url == "none"
    yield from check_redis(connection, is_archive_off=is_off, everywhere=everywhere)
    yield from check_broker(connection)
    yield check_vocabulary()
    yield from check_tokenizers(tokenizer_dir, connection)
    yield check_archive(archive, namespace)
    yield from check_positions(archive, connection)
    yield check_templates(template_dirs)
