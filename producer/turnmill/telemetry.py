"""What agents tell OpenTelemetry, and how a trace goes on from a push to the jobs it leads to.

The application sets OpenTelemetry up; the package is optional. Where it has not, nobody listens,
and a call costs a look for who does. Nothing here has content, and no error's message either.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, Self


class Instrument(NamedTuple):
    """One instrument: its name, and what an operator reads of it.

    Attributes:
        unit: of its values, as OpenTelemetry abbreviates them; empty for a plain number.
        labels: the attributes that its values may have.
        buckets: upper bounds, of a histogram.
    """

    kind: Literal["counter", "histogram", "gauge"]
    name: str
    help: str
    unit: str = ""
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def prometheus(self) -> str:
        """Its name there: what every exporter of OpenTelemetry makes of it."""
        units = {"s": "_seconds", "1": "_ratio"}
        unit = "" if self.kind != "gauge" and self.unit == "1" else units.get(self.unit, "")
        return self.name.replace(".", "_") + unit + ("_total" if self.kind == "counter" else "")


FAST: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)

CALLS: Final = Instrument(
    "histogram",
    "turnmill.client.duration",
    "What a push, a read, or a step of both took an agent; projected: the read was cut to fit",
    unit="s",
    labels=("operation", "projected", "error_type"),
    buckets=FAST,
)
TURNS: Final = Instrument("counter", "turnmill.client.turns", "Turns pushed, new ones or again")
REQUESTS: Final = Instrument(
    "histogram",
    "turnmill.server.duration",
    "Requests to turnmill serve, by route and status",
    unit="s",
    labels=("method", "route", "status"),
    buckets=FAST,
)
INSTRUMENTS: Final = (CALLS, TURNS, REQUESTS)

SCOPE: Final = "turnmill"


def made(meter: Any, instruments: Sequence[Instrument]) -> dict[str, Any]:
    """How each instrument of a meter takes a value, by its name."""
    found = {}
    for each in instruments:
        if each.kind == "counter":
            counter = meter.create_counter(each.name, unit=each.unit, description=each.help)
            found[each.name] = counter.add
        elif each.kind == "histogram":
            found[each.name] = meter.create_histogram(
                each.name,
                unit=each.unit,
                description=each.help,
                explicit_bucket_boundaries_advisory=each.buckets,
            ).record
    return found


def api(name: str) -> Any:
    """A module of OpenTelemetry's API if the process has imported it, as redis-py does."""
    found = sys.modules.get(f"opentelemetry.{name}")
    # Another thread may be in the middle of its import.
    return found if hasattr(found, {"metrics": "get_meter", "trace": "get_tracer"}[name]) else None


def _is_set_up(name: str) -> bool:
    """Whether the process has a provider that listens."""
    module = api(name)
    if module is None:
        return False
    found = module.get_meter_provider() if name == "metrics" else module.get_tracer_provider()
    return "Proxy" not in type(found).__name__


class Teller:
    """What one of our packages tells: the process's providers, or those given to ``use``."""

    def __init__(self, instruments: Sequence[Instrument]) -> None:
        self._instruments = instruments
        self.is_used: bool = False
        self._made: dict[str, Any] = {}
        self._tracer: Any = None
        self._found: tuple[Any, Any] = (None, None)

    def use(self, meter: Any, tracer: Any = None) -> None:
        """Tell these from now on."""
        self.is_used = True
        self._made, self._tracer = made(meter, self._instruments), tracer

    @property
    def tracer(self) -> Any:
        """The tracer, or None where nobody has set one up."""
        trace = api("trace")
        if self._tracer or trace is None:
            return self._tracer
        provider = trace.get_tracer_provider()
        if provider is not self._found[0]:
            is_none = isinstance(provider, trace.ProxyTracerProvider)
            self._found = (provider, None if is_none else provider.get_tracer(SCOPE))
        return self._found[1]

    def record(self, instrument: Instrument, value: float, **labels: str) -> None:
        """Record a value, if there is a meter; empty labels are left out."""
        if not self._made:
            metrics = api("metrics")
            if metrics is None:
                return
            self._made = made(metrics.get_meter(SCOPE), self._instruments)
        given = {name.replace("error_type", "error.type"): v for name, v in labels.items() if v}
        self._made[instrument.name](value, given)


_agent = Teller(INSTRUMENTS)


def use(meter: Any) -> None:
    """Tell this meter from now on."""
    _agent.use(meter)


def _is_heard() -> bool:
    return _agent.is_used or _is_set_up("metrics")


def request(method: str, route: str, status: int, seconds: float) -> None:
    """Tell of a request that was answered; of one that no route is for, only that."""
    if _is_heard():
        _agent.record(
            REQUESTS, seconds, method=method if route else "", route=route, status=str(status)
        )


def is_set_up() -> bool:
    """Whether the process has a tracer of its own."""
    return _agent.tracer is not None


class Span:
    """A span while a ``with`` block runs, if there is a tracer; an error is named, not quoted."""

    __slots__ = ("_kind", "_name", "_open", "_parent", "_told", "_tracer", "span")

    def __init__(
        self,
        tracer: Any,
        name: str,
        kind: str = "INTERNAL",
        parent: str = "",
        **told: str | float | bool | None,
    ) -> None:
        """``parent``: a ``traceparent``; else the span about us is."""
        self._tracer, self._name, self._kind, self._parent = tracer, name, kind, parent
        self._told = told
        self.span: Any = None

    def tell(self, **told: str | float | bool | None) -> None:
        """Add attributes; ``gen_ai__x`` is ``gen_ai.x``."""
        if self.span is not None:
            for name, value in told.items():
                if value is not None:
                    self.span.set_attribute(name.replace("__", "."), value)

    def __enter__(self) -> Self:
        if self._tracer is not None:
            trace = api("trace")
            self._open = self._tracer.start_as_current_span(
                self._name,
                context=_context(trace, self._parent),
                kind=getattr(trace.SpanKind, self._kind),
                record_exception=False,
                set_status_on_exception=False,
            )
            self.span = self._open.__enter__()
            self.tell(**self._told)
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self.span is not None:
            if kind is not None:
                self.span.set_attribute("error.type", kind.__name__)
                self.span.set_status(api("trace").StatusCode.ERROR)
            self._open.__exit__(kind, *error)


_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})\Z")

HEADER: Final = "traces"
MOST_TRACED: Final = 64
"""Sessions whose traces one message carries on."""


def traceparent() -> str:
    """The span we are in, as W3C writes it; empty where there is none, or nobody samples it."""
    trace = api("trace")
    if trace is None:
        return ""
    context = trace.get_current_span().get_span_context()
    if not context.is_valid or not context.trace_flags.sampled:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def headers(traces: Mapping[str, str]) -> dict[str, Any]:
    """How ``send_task`` is told of traces; nothing where there are none."""
    some = dict(list(traces.items())[:MOST_TRACED])
    return {"headers": {HEADER: some}} if some else {}


def traces_in(header: object) -> dict[str, str]:
    """What a message's header says of sessions' traces; whatever else is in it is left out."""
    found = header.items() if isinstance(header, Mapping) else ()
    good = [(s, t) for s, t in found if isinstance(t, str) and _TRACEPARENT.match(t)]
    return {session: told for session, told in good[:MOST_TRACED] if isinstance(session, str)}


def _context(trace: Any, parent: str) -> Any:
    found = _TRACEPARENT.match(parent)
    if found is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in found.groups())
    sampled = trace.TraceFlags(flags)
    known = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=sampled)
    return trace.set_span_in_context(trace.NonRecordingSpan(known))


Operation = Literal["push", "read", "step"]


class Call:
    """One call of an agent: its time, and a span."""

    __slots__ = ("_began_s", "_operation", "_projected", "_span", "_turns")

    def __init__(self, operation: Operation, namespace: str, session: str, turns: int) -> None:
        self._operation, self._turns, self._projected = operation, turns, ""
        told = {"gen_ai__conversation__id": session, "turnmill__namespace": namespace}
        self._span = Span(_agent.tracer, f"turnmill.{operation}", "CLIENT", **told)

    def read(self, version: int, *, projected: bool) -> None:
        """Say what was read."""
        self._projected = str(projected).lower()
        # The convention has it true or not at all.
        self._span.tell(
            turnmill__version=version,
            turnmill__projected=projected,
            gen_ai__conversation__compacted=version > 0 or None,
        )

    def __enter__(self) -> Self:
        self._span.__enter__()
        self._began_s = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        took_s = time.perf_counter() - self._began_s
        _agent.record(
            CALLS,
            took_s,
            operation=self._operation,
            projected=self._projected,
            error_type="" if kind is None else kind.__name__,
        )
        if self._turns and kind is None:
            _agent.record(TURNS, self._turns)
        self._span.__exit__(kind, *error)


class Untold:
    """A call that nobody listens to."""

    __slots__ = ()

    def read(self, version: int, *, projected: bool) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


_UNTOLD: Final = Untold()


def call(operation: Operation, namespace: str, session: str, turns: int = 0) -> Call | Untold:
    """Tell of a call while a ``with`` block runs."""
    if _is_heard() or _is_set_up("trace"):
        return Call(operation, namespace, session, turns)
    return _UNTOLD
