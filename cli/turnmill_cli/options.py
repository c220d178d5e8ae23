"""The options that commands share, and the connections they stand for.

A parameter of a command whose type is a dataclass of options, such as `Connection`, stands for all
of its fields: `CommandApp` shows them one by one on the command line, and gives the command the
object.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from turnmill.connection.credentials import load_cipher, with_password
from turnmill.connection.urls import celery_broker, store_url
from turnmill.contract.errors import InvalidInput, InvalidPolicy
from turnmill.contract.names import Namespace, namespace
from turnmill.contract.policy import Policy
from turnmill_cli.running import UP_DATA_DIR, redis_of

if TYPE_CHECKING:
    from turnmill.client._sync.client import ContextClient
    from turnmill_cli.redis_view import RedisView


PANEL = "Connection"


def setting(
    option: str,
    metavar: str,
    told: str,
    *,
    panel: str = PANEL,
    shown: bool | str = False,
    short: str = "",
) -> Any:
    """An option that a variable of the environment sets too: ``--redis-url``, TURNMILL_REDIS_URL.

    ``shown`` says whether the help names its default, or in which words.
    """
    variable = option.removeprefix("--").replace("-", "_").upper()
    return typer.Option(
        *filter(None, (option, short)),
        metavar=metavar,
        envvar=f"TURNMILL_{variable}",
        help=told,
        show_default=shown,
        rich_help_panel=panel,
    )


TIMEOUT_S = 5.0
REDIS_URL = "redis://localhost:6379/0"


def redis_here() -> str:
    """The Redis of this folder's `turnmill up`, else the one on the usual port.

    Also while it is down: what listens on the usual port is somebody else's.
    """
    folder = Path(os.environ.get("TURNMILL_DATA_DIR") or UP_DATA_DIR)
    return redis_of(folder) or REDIS_URL


RedisUrl = Annotated[
    str,
    setting(
        "--redis-url",
        "URL",
        "The Redis that holds the sessions.",
        shown=f"that of `turnmill up` in this folder, else {REDIS_URL}",
    ),
]

BrokerUrl = Annotated[
    str,
    setting("--broker-url", "URL", "The Celery broker, if it is not the Redis of the sessions."),
]
RedisPasswordFile = Annotated[
    Path | None,
    setting("--redis-password-file", "FILE", "A file with the password of that Redis."),
]
BrokerPasswordFile = Annotated[
    Path | None, setting("--broker-password-file", "FILE", "A file with the broker's password.")
]
NamespaceName = Annotated[
    str, setting("--namespace", "NAME", "The namespace of the sessions.", shown=True, short="-n")
]
MetricsPort = Annotated[
    int, setting("--metrics-port", "PORT", "The port of /metrics; none if 0.", shown=True)
]
MetricsHost = Annotated[str, setting("--metrics-host", "HOST", "Where that listens.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
SessionName = Annotated[
    str, typer.Argument(metavar="SESSION", help="The session's name.", show_default=False)
]
Timeout = Annotated[
    float, typer.Option("--timeout", min=0, metavar="SECONDS", help="Longest wait for a worker.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
AllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="Look at every namespace.")
]
Limit = Annotated[int, typer.Option(min=0, help="List at most this many. 0 lists all.")]


@dataclass(frozen=True, slots=True)
class Connection:
    """The sessions a command works on, and how it reaches them; also the options that say so.

    Attributes:
        redis_url: where none is given, that of the `turnmill up` in this folder, or the usual one.
        broker_url: empty when the broker is the Redis of the sessions.
    """

    redis_url: RedisUrl = ""
    broker_url: BrokerUrl = ""
    namespace: NamespaceName = "default"
    redis_password_file: RedisPasswordFile = None
    broker_password_file: BrokerPasswordFile = None
    cipher: Annotated[
        str,
        setting("--cipher", "MODULE:NAME", "What encrypts stored content, as set for the workers."),
    ] = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "redis_url", self.redis_url or redis_here())

    @property
    def store(self) -> str:
        """The URL of the Redis of the sessions, with its password."""
        return with_password(self.redis_url, self.redis_password_file)

    @property
    def broker(self) -> str:
        """The broker's URL, with its password.

        Raises:
            typer.BadParameter: none is given, and the state store cannot be one.
        """
        own = self.broker_url and with_password(self.broker_url, self.broker_password_file)
        url = own or self.store
        try:
            celery_broker(url)
        except InvalidInput as error:
            raise typer.BadParameter(str(error), param_hint="--broker-url") from None
        return url

    def client(self, *, hints: bool = False) -> ContextClient:
        """A client of these sessions; one that only looks publishes no hints."""
        # The clients are slow to import, and most help needs none.
        from turnmill.client._sync.client import ContextClient  # noqa: PLC0415
        from turnmill.hint.waker import SilentWaker  # noqa: PLC0415

        self.check()
        return ContextClient(
            self.store,
            namespace=self.namespace,
            broker=self.broker if hints else SilentWaker(),
            timeout_s=TIMEOUT_S,
            cipher=load_cipher(self.cipher),
        )

    @contextmanager
    def redis(self) -> Iterator[RedisView]:
        """A view of the namespace's keys; what Redis raises is translated to turnmill's errors."""
        import redis  # noqa: PLC0415 - as above

        from turnmill.connection.store_client import store_client  # noqa: PLC0415
        from turnmill.connection.transport import server_name, translate  # noqa: PLC0415
        from turnmill_cli.redis_view import RedisView  # noqa: PLC0415

        name = self.check()
        try:
            made = store_client(self.store, TIMEOUT_S, cipher=load_cipher(self.cipher))
            with closing(made) as client:
                yield RedisView(client, name)
        except redis.RedisError as error:
            raise translate(error, server_name(self.redis_url)) from error

    def check(self) -> Namespace:
        """The namespace's name, when it and the URL are valid.

        Raises:
            InvalidName: the namespace's name is not valid.
            typer.BadParameter: this is not a URL of a Redis; the message does not repeat it.
        """
        try:
            store_url(self.redis_url)
        except InvalidInput as error:
            raise typer.BadParameter(str(error), param_hint="--redis-url") from None
        return namespace(self.namespace)


def views_of_all(view: RedisView) -> list[RedisView]:
    """A view of each namespace there is."""
    from turnmill_cli.redis_view import RedisView, all_namespaces  # noqa: PLC0415 - as above

    return [RedisView(view.client, name) for name in all_namespaces(view.client)]


class CommandApp(typer.Typer):
    """A typer app whose commands may take objects that stand for several options."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(add_completion=False, **settings)

    def command(self, *args: Any, **kwargs: Any) -> Callable[[Any], Any]:
        """As typer's; gives back the command as it was written."""
        add = super().command(*args, **kwargs)

        def register(command: Callable[..., None]) -> Callable[..., None]:
            add(_with_single_options(command))
            return command

        return register


class _FirstByItself(TyperGroup):
    """A group that runs its first command when none is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_option = args[:1] and args[0].startswith("-") and args[0] not in ctx.help_option_names
        if (not args or is_option) and not ctx.resilient_parsing:
            args = [self.list_commands(ctx)[0], *args]
        return super().parse_args(ctx, args)


class GroupApp(CommandApp):
    """Commands under one word, of which the first runs when none is named."""

    def __init__(self, *, help: str) -> None:  # noqa: A002 - typer's name
        super().__init__(cls=_FirstByItself, help=help)


def _with_single_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with every dataclass among its parameters replaced by the dataclass's fields."""
    written = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {p.name: p.annotation for p in written if is_dataclass(p.annotation)}
    # The options that a command shares with others come last in its help.
    parameters = [parameter for parameter in written if parameter.name not in groups]
    for group in groups.values():
        parameters += _fields(group)

    @wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    del run.__wrapped__  # typer would look there for parameters
    # As the help shows it: typer would keep the line breaks.
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    run.__doc__ = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    )
    return run


def _fields(group: Any) -> list[inspect.Parameter]:
    types = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=types[field.name],
        )
        for field in fields(group)
    ]


# --- policies -------------------------------------------------------------------------------------


class Preset(StrEnum):
    """The policies of the five specifications, as ``Policy`` has them."""

    IMAGE_HISTORY = "image_history"
    SLIDING_WINDOW = "sliding_window"
    MANAGED = "managed"
    LONG_RUNNING = "long_running"
    ITERATIONS = "iterations"


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """What was given on the command line, and the options themselves."""

    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="NAME|FILE",
            help="A policy of the namespace by name, or a JSON file: a path that contains a / or "
            "ends in .json.",
            show_default=False,
        ),
    ] = ""
    preset: Annotated[
        Preset | None,
        typer.Option(
            "--preset",
            metavar="NAME",
            help=f"Start from a ready-made policy: {', '.join(Preset)}.",
        ),
    ] = None
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", help="The hard limit. The rest of the policy stays."),
    ] = None
    fields: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="Set one field of the policy; VALUE is JSON. Can be given several times.",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.policy and self.preset:
            raise typer.BadParameter("cannot be combined with --preset", param_hint="--policy")

    @property
    def given(self) -> bool:
        """Whether any option was."""
        return bool(self.policy or self.preset or self.overrides)

    @property
    def name(self) -> str:
        """The policy of the namespace to follow; ``""`` if the options make one of their own."""
        return "" if self.overrides or _is_file(self.policy) else self.policy

    @property
    def overrides(self) -> dict[str, Any]:
        """Single fields, by name."""
        found = dict(map(_field, self.fields or ()))
        return found if self.max_tokens is None else {**found, "max_tokens": self.max_tokens}

    def build(self, present: Callable[[], Policy], named: Callable[[str], Policy]) -> Policy:
        """The policy that the options make of the present one, or of one by name.

        Raises:
            InvalidPolicy: names the field.
            UnknownPolicy: the namespace has no policy of this name.
        """
        if self.preset:
            preset: Policy = getattr(Policy, self.preset.value)(**self.overrides)
            return preset
        if _is_file(self.policy):
            base = _read(Path(self.policy))
        else:
            base = named(self.policy) if self.policy else present()
        return Policy(**{**base.model_dump(), **self.overrides}) if self.overrides else base


def _is_file(policy: str) -> bool:
    return "/" in policy or policy.endswith(".json")


def _read(file: Path) -> Policy:
    try:
        return Policy.from_json(text_of(file, "--policy"))
    except InvalidPolicy as error:
        raise InvalidPolicy(f"{file}: {error}") from None


def _field(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not FIELD=VALUE", param_hint="--set")
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value  # a word needs no quotes


def text_of(path: Path, option: str) -> str:
    """The file's text.

    Raises:
        typer.BadParameter: names the option, the file and the reason.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise typer.BadParameter(f"{path}: {reason}", param_hint=option) from None
