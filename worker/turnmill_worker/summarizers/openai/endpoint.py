"""One endpoint, one key: a prompt goes out, an answer or one of our errors comes back.

Within limits of time and bytes, and behind the gate that all workers share.
"""

from __future__ import annotations

import json
import math
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal, Protocol, Self, TypeVar
from urllib.parse import urlsplit

import httpcore2
import httpx2
import openai
import structlog
from openai import OpenAI
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from pydantic import SecretStr

from turnmill.connection.credentials import read_secret
from turnmill.contract.codec import encode_json
from turnmill.contract.context import JsonMessage
from turnmill.contract.errors import InvalidInput
from turnmill_worker import telemetry
from turnmill_worker.errors import (
    EndpointRefused,
    RateLimited,
    SummarizerFailed,
    SummarizerMisconfigured,
    SummarizerUnavailable,
)
from turnmill_worker.ports.protocols import Gate
from turnmill_worker.ports.work_while_waiting import waiting_begins
from turnmill_worker.spending import NOTHING, Spent
from turnmill_worker.summarizers.openai.streaming import Transcript

log = structlog.get_logger()

_MOST_TOKENS: Final = 2**31
"""More is no number of tokens, and databases cannot store it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back.

    Attributes:
        finish: ``stop`` when the model had finished, else why it stopped.
        refused: the model refused by the API's own means.
        model: the name the endpoint gives it.
        has_usage: the numbers below are the endpoint's, or ours of an answer that we cut off.
        completion_tokens: reasoning included.
        reasoning_tokens: as the endpoint tells, or by the length of what it shows of them.
        batched: it was asked for in a batch, at the price of one.
    """

    text: str = field(repr=False)
    finish: str
    refused: bool
    model: str
    has_usage: bool
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    batched: bool = False

    @property
    def reasoned(self) -> int:
        """Tokens of reasoning: all of them, where a text was cut off before it began."""
        is_silent = self.finish == "length" and not self.text.strip()
        return self.completion_tokens if is_silent else self.reasoning_tokens

    def is_cut_by_reasoning(self, limit: int) -> bool:
        """Whether reasoning took what was meant for a text of ``limit`` tokens."""
        said = self.completion_tokens - self.reasoned
        return self.finish == "length" and self.reasoned > 0 and said < limit

    def after(self, earlier: Answer) -> Answer:
        """The same, paid for together with an earlier one to the same prompt."""
        return replace(
            self,
            has_usage=self.has_usage and earlier.has_usage,
            prompt_tokens=self.prompt_tokens + earlier.prompt_tokens,
            cached_tokens=self.cached_tokens + earlier.cached_tokens,
            completion_tokens=self.completion_tokens + earlier.completion_tokens,
        )


def from_chat(completion: Any) -> Answer:
    """The answer in a chat completion; raises attribute, index or type errors if it is none."""
    choice = completion.choices[0]
    text = choice.message.content or ""
    refused = bool(getattr(choice.message, "refusal", None))
    if not isinstance(text, str):
        raise TypeError("content is not text")
    thought = getattr(choice.message, "reasoning_content", None) or ""
    if text.lstrip().startswith(_THINKS):
        # Servers that do not know the model's template leave its reasoning in the text.
        more, _, text = text.partition(_THOUGHT)
        thought += more
    # Some servers leave the reason out; a text that ends is taken to be whole only with one.
    usage = completion.usage
    told = _number(getattr(usage, "completion_tokens_details", None), "reasoning_tokens")
    written = _number(usage, "completion_tokens")
    details = getattr(usage, "prompt_tokens_details", None)
    return Answer(
        text=text,
        finish=str(choice.finish_reason or "unknown"),
        refused=refused,
        model=str(completion.model or ""),
        has_usage=usage is not None,
        prompt_tokens=_number(usage, "prompt_tokens"),
        cached_tokens=_number(details, "cached_tokens"),
        completion_tokens=written,
        reasoning_tokens=told or min(_tokens(len(thought)), written),
    )


def from_response(response: Any) -> Answer:
    """The answer in a response of the Responses API; errors as above."""
    parts = [part for item in response.output if item.type == "message" for part in item.content]
    reason = getattr(response.incomplete_details, "reason", None)
    finishes = {"max_output_tokens": "length", None: str(response.status or "unknown")}
    finish = finishes.get(reason, str(reason))
    usage = response.usage
    return Answer(
        text="".join(part.text for part in parts if part.type == "output_text"),
        finish="stop" if finish == "completed" else finish,
        refused=any(part.type == "refusal" for part in parts),
        model=str(response.model or ""),
        has_usage=usage is not None,
        prompt_tokens=_number(usage, "input_tokens"),
        cached_tokens=_number(getattr(usage, "input_tokens_details", None), "cached_tokens"),
        completion_tokens=_number(usage, "output_tokens"),
        reasoning_tokens=_number(getattr(usage, "output_tokens_details", None), "reasoning_tokens"),
    )


def from_usage(usage: Any, model: str) -> Answer | None:
    """An answer of which only the usage is known, as batches tell it; None if there is none."""
    prompt, completion = _number(usage, "input_tokens"), _number(usage, "output_tokens")
    if not prompt + completion:
        return None
    details = getattr(usage, "input_tokens_details", None)
    return Answer(
        text="",
        finish="unknown",
        refused=False,
        model=model,
        has_usage=True,
        prompt_tokens=prompt,
        cached_tokens=_number(details, "cached_tokens"),
        completion_tokens=completion,
    )


def _number(holder: Any, name: str) -> int:
    value = getattr(holder, name, None)
    return value if isinstance(value, int) and 0 < value <= _MOST_TOKENS else 0


_THINKS: Final = "<think>"
_THOUGHT: Final = "</think>"
_CHARS_PER_TOKEN: Final = 3.5


def _tokens(chars: int) -> int:
    """About how many tokens so many characters are."""
    return math.ceil(chars / _CHARS_PER_TOKEN)


MOST_BYTES: Final = 4 * 1024 * 1024
"""Bytes of an answer with its headers: a hundred times what a long summary needs."""


_PIECE: Final = 16 * 1024

_LONGEST: Final = 5
"""An answer that goes on being written may take so many times as long as silence may."""

_PAUSE_SHARE: Final = 0.1
_SHORTEST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 1.0
"""What was written meanwhile is read together: word by word costs a worker ten times as much."""

_LAST_S: Final = 1.0
_DATA: Final = b"data:"
_DONE: Final = b"[DONE]"


def _nothing() -> None:
    """For who need not know."""


class Call:
    """A call under way, which one thread makes from its beginning to its end.

    Attributes:
        lost: what was spent on an answer that broke off, about.
    """

    def __init__(self, timeout_s: float, alive: Callable[[], object] = _nothing) -> None:
        self._alive = alive
        self._timeout_s = timeout_s
        self._begun = time.monotonic()
        self._deadline = self._begun + timeout_s
        self._end = self._begun + timeout_s * _LONGEST
        self._read = 0
        self._is_written = False
        self.lost = NOTHING

    @property
    def is_over(self) -> bool:
        """Whether its answer has been written for as long as one may be."""
        return time.monotonic() >= self._end

    def goes_on(self) -> None:
        """More of the answer has come: time and bytes count from here."""
        self._deadline = min(time.monotonic() + self._timeout_s, self._end)
        self._read = 0
        self._is_written = True
        self._alive()

    def ends(self) -> None:
        """Nothing of the answer is to come: what is left is soon read, and the connection free."""
        self._deadline = min(self._deadline, time.monotonic() + _LAST_S)

    def lose(self, told: int, wrote: int) -> None:
        """The answer broke off; tokens read and written are paid for if it had begun."""
        if wrote:
            self.lost = Spent(calls=1, prompt_tokens=told, completion_tokens=wrote, cost_usd=None)

    def pause(self) -> None:
        """Lets some more be written, if that has begun."""
        if self._is_written:
            share = (time.monotonic() - self._begun) * _PAUSE_SHARE
            time.sleep(min(max(share, _SHORTEST_PAUSE_S), _LONGEST_PAUSE_S))

    @property
    def is_too_large(self) -> bool:
        """Whether its answer has more bytes than are allowed."""
        return self._read > MOST_BYTES

    def left_s(self, timeout_s: float | None, error: type[Exception]) -> float:
        """Seconds the next operation may take; raises the error when there are none."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise error
        return left if timeout_s is None else min(left, timeout_s)

    def add(self, received: int) -> None:
        """Counts what was read.

        Raises:
            httpcore2.ReadError: that is too much.
        """
        self._read += received
        if self.is_too_large:
            raise httpcore2.ReadError


_CALL: ContextVar[Call | None] = ContextVar("turnmill_model_call", default=None)


@contextmanager
def one_call(timeout_s: float, alive: Callable[[], object] = _nothing) -> Iterator[Call]:
    """Everything this thread does over a bounded client in the block counts as one call."""
    call = Call(timeout_s, alive)
    token = _CALL.set(call)
    try:
        yield call
    finally:
        _CALL.reset(token)


def bounded_client(client: httpx2.Client) -> httpx2.Client:
    """The client, new and unused, with all of its connections bounded, those to proxies too.

    Raises:
        SummarizerMisconfigured: the HTTP library has changed; nothing unbounded is used.
    """
    client.headers["Accept-Encoding"] = "identity"
    client.event_hooks["response"].append(_refuse_encoded)
    try:
        # A client takes proxies from the environment, and makes their transports itself.
        transports: list[Any] = [client._transport, *client._mounts.values()]  # noqa: SLF001
        for transport in transports:
            if transport is not None:
                pool = transport._pool  # noqa: SLF001
                pool._network_backend = _Backend(pool._network_backend)  # noqa: SLF001
    except AttributeError:
        message = f"httpx2 {httpx2.__version__}: its calls cannot be bounded; use another version"
    else:
        return client
    raise SummarizerMisconfigured(message)


def _refuse_encoded(response: httpx2.Response) -> None:
    # A few compressed bytes can hold very many, and nobody asked for compression.
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("encoded", request=response.request)


class _Backend(httpcore2.NetworkBackend):
    def __init__(self, inner: httpcore2.NetworkBackend) -> None:
        self._inner = inner

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> _Stream:
        left = _left_s(timeout, httpcore2.ConnectTimeout)
        return _Stream(self._inner.connect_tcp(host, port, left, local_address, socket_options))

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


class _Stream(httpcore2.NetworkStream):
    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        waiting_begins()
        call = _CALL.get()
        if call is not None:
            call.pause()
        received = self._inner.read(max_bytes, _left_s(timeout, httpcore2.ReadTimeout))
        if call is not None:
            call.add(len(received))
        return received

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # In pieces: an endpoint that reads slowly must not hold us for one timeout per packet.
        for start in range(0, len(buffer), _PIECE):
            piece = buffer[start : start + _PIECE]
            self._inner.write(piece, _left_s(timeout, httpcore2.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> _Stream:
        left = _left_s(timeout, httpcore2.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _left_s(timeout_s: float | None, error: type[Exception]) -> float | None:
    call = _CALL.get()
    return timeout_s if call is None else call.left_s(timeout_s, error)


_PASSING: Final = frozenset({408, 409, 425, 429})
"""Statuses below 500 that say nothing against the request itself."""

_TOO_OFTEN: Final = 429

_NO_QUOTA: Final = "insufficient_quota"
_TOO_LONG: Final = "context_length_exceeded"

_REFUSES_ALL: Final = frozenset({401, 403, 404})
"""Statuses that say nothing about this request, but about every one: key, rights, model."""


def translated(
    error: openai.OpenAIError, *, model: str, timeout_s: float
) -> SummarizerUnavailable | SummarizerMisconfigured:
    """Our error for theirs: its kind and numbers, none of its words."""
    if isinstance(error, openai.APITimeoutError):
        slow = not isinstance(error.__cause__, httpx2.ConnectTimeout)
        return SummarizerUnavailable(f"{model}: no answer within {timeout_s:g} s", is_slow=slow)
    if not isinstance(error, openai.APIStatusError):
        return SummarizerUnavailable(f"{model}: {type(error).__name__}")
    status = error.status_code
    if error.code == _NO_QUOTA:
        return EndpointRefused(f"{model}: HTTP {status}, {error.code}")
    if error.code == _TOO_LONG:
        return SummarizerMisconfigured(f"{model}: HTTP {status}, {error.code}")
    if status >= 500 or status in _PASSING:  # noqa: PLR2004
        wait = retry_after_s(error.response.headers, now_s=time.time())
        passing = RateLimited if status == _TOO_OFTEN else SummarizerUnavailable
        return passing(f"{model}: HTTP {status}", retry_after_s=wait)
    lasting = EndpointRefused if status in _REFUSES_ALL else SummarizerMisconfigured
    return lasting(f"{model}: HTTP {status}, {_MEANING.get(status, 'refused')}")


_MEANING: Final = {
    400: "the request is not to its liking: check model, temperature and output cap",
    401: "the key is not accepted",
    403: "the key may not use it",
    404: "there is no such model or path",
    413: "the request is too large: lower window_tokens",
    422: "the request is not to its liking: check model, temperature and output cap",
}


def retry_after_s(headers: Mapping[str, str], *, now_s: float) -> float | None:
    """Seconds the endpoint asks to wait: ``retry-after-ms``, seconds, or a date; None if none."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            wait = float(value) * scale
        except ValueError:
            try:
                wait = parsedate_to_datetime(value).timestamp() - now_s
            except (TypeError, ValueError):
                continue
        if math.isfinite(wait):
            return max(wait, 0.0)
    return None


T = TypeVar("T")

Api = Literal["chat", "responses"]
"""Chat Completions, which every compatible server has, or OpenAI's Responses."""

OPENAI_URL: Final = "https://api.openai.com/v1"
"""Said here, or the package would take it from the environment."""

_CONNECT_S: Final = 5.0

# The last is JSON nested too deep.
_NO_ANSWER: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """How a model is asked.

    Attributes:
        model: the endpoint's name for it.
        temperature: low when None; left to models that refuse it.
        reasoning_effort: left to the model when empty.
        max_output_tokens: most tokens of one answer, reasoning included.
        window_tokens: what the model takes, input and output together.
        timeout_s: most time until an answer begins, and between its pieces; all of one that does
            not come in pieces.
        api: which of the two APIs is spoken.
    """

    model: str
    temperature: float | None = None
    reasoning_effort: str = ""
    max_output_tokens: int = 4096
    window_tokens: int = 128_000
    timeout_s: float = 60.0
    api: Api = "chat"


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is told (``system``) and given (``user``).

    Attributes:
        schema: the JSON schema the answer is to follow, where the endpoint can be told of one. It
            is sent as strict: all properties are required, and no others are allowed.
        limit: most tokens of the answer itself, without reasoning; the options' when None.
        before: the messages between the two, in the shape of the API that is spoken.
        tools: the tools of those messages, in the same shape; none of them may be called.
    """

    system: str = field(repr=False)
    user: str = field(repr=False)
    schema: Mapping[str, Any] | None = field(default=None, repr=False)
    limit: int | None = None
    before: Sequence[JsonMessage] = field(default=(), repr=False)
    tools: Sequence[Mapping[str, Any]] = field(default=(), repr=False)


class ModelEndpoint:
    """Asks models over one pool of connections; safe to use from many threads."""

    def __init__(self, *, api_key: SecretStr, base_url: str = OPENAI_URL) -> None:
        """An endpoint; nothing is sent yet.

        Args:
            api_key: shown to the endpoint and nowhere else.
            base_url: such as ``http://localhost:11434/v1``.

        Raises:
            SummarizerMisconfigured: a key that cannot be sent, or a URL that is none.
        """
        secret = api_key.get_secret_value()
        if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
            # Refused here, because an HTTP library would quote the header it cannot send.
            raise SummarizerMisconfigured(
                f"the model's key must be printable ASCII without blanks; got {len(secret)} "
                "characters that are not"
            )
        if not _is_url(base_url):
            raise SummarizerMisconfigured(
                "the model's base_url must be a URL that begins with http:// or https://"
            )
        self._client = openai.OpenAI(
            api_key=secret,
            base_url=base_url,
            # The ladder decides about a second try: it knows of other models and sessions.
            max_retries=0,
            # A conversation goes where the operator said; redirects are not followed.
            http_client=bounded_client(openai.DefaultHttpxClient(follow_redirects=False)),
        )
        self._learned: dict[tuple[Api, str], Learned] = {}
        # OpenAI's own takes one name of the limit only. Others may know the older one, or both.
        self._left_out = frozenset({"max_tokens"} if base_url == OPENAI_URL else ())
        self._looking = Lock()
        self._look_at = 0.0
        self._windows: dict[str, int] | None = {} if base_url == OPENAI_URL else None
        # Imports parts of the package now, so that no request does beside other threads.
        _ = self._client.chat, self._client.responses, self._client.files, self._client.batches

    def __repr__(self) -> str:
        return "ModelEndpoint(api_key='**********')"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes its connections."""
        self._client.close()

    def ask(
        self, prompt: Prompt, options: ModelOptions, alive: Callable[[], object] = _nothing
    ) -> Answer:
        """The model's answer, whatever it is worth; ``alive`` is called now and then meanwhile.

        Raises:
            SummarizerUnavailable: the same request may succeed later.
            SummarizerMisconfigured: it will not.
        """
        learned = self._learned_of(options)
        limit = min(prompt.limit or options.max_output_tokens, options.max_output_tokens)
        asked = replace(prompt, limit=limit)
        answer: Answer | None = None
        while True:
            alive()
            given = _most_of(asked, options, learned)
            newest = self.run(lambda it: _respond(it, asked, options, learned), options, alive)
            learned.heed(newest, limit)
            answer = newest.after(answer) if answer else newest
            # Asked again as before, it would reason as long and say as little.
            has_more = _most_of(asked, options, learned) > given
            if not (newest.is_cut_by_reasoning(limit) and has_more):
                return answer

    def body(self, prompt: Prompt, options: ModelOptions) -> dict[str, Any]:
        """What a line of a batch holds: nothing that the model was found to refuse."""
        learned = self._learned_of(options)
        return learned.kept(body_of(prompt, options, learned))

    def window_tokens(self, model: str) -> int:
        """The model's window as the endpoint tells it; 0 when it does not, or cannot be asked."""
        with self._looking:
            now = time.monotonic()
            if self._windows is None and now >= self._look_at:
                self._look_at = now + _LOOK_AGAIN_S
                bounds = ModelOptions(model="models", timeout_s=_LOOK_S)
                with suppress(SummarizerUnavailable, SummarizerMisconfigured):
                    self._windows = self.run(_windows, bounds)
            windows = self._windows or {}
            return windows.get(model) or windows.get(_THE_ONLY, 0)

    def _learned_of(self, options: ModelOptions) -> Learned:
        return self._learned.setdefault((options.api, options.model), Learned(self._left_out))

    def run(
        self,
        call: Callable[[openai.OpenAI], T],
        options: ModelOptions,
        alive: Callable[[], object] = _nothing,
    ) -> T:
        """What the call gets from the endpoint; errors as of ``ask``, which name this model."""
        failure: SummarizerUnavailable | SummarizerMisconfigured
        with one_call(options.timeout_s, alive) as bounds:
            try:
                return call(self._client)
            except openai.OpenAIError as error:
                failure = translated(error, model=options.model, timeout_s=options.timeout_s)
            except _NO_ANSWER as error:
                # The package checks nothing: a proxy's page comes back as it is, or fails as JSON.
                failure = SummarizerUnavailable(
                    f"{options.model}: the endpoint's answer is not of the API "
                    f"({type(error).__name__})"
                )
        failure.spent = bounds.lost.of(options.model)
        if bounds.is_too_large:
            failure = SummarizerUnavailable(
                f"{options.model}: an answer of more than {MOST_BYTES:,} bytes"
            )
        # Out here, so that the original is not even the new error's context.
        raise failure


def _most_of(prompt: Prompt, options: ModelOptions, learned: Learned) -> int:
    """Most tokens of an answer, with what the model reasons before it."""
    limit = prompt.limit or options.max_output_tokens
    return min(limit + learned.room, options.max_output_tokens)


def body_of(
    prompt: Prompt, options: ModelOptions, learned: Learned | None = None
) -> dict[str, Any]:
    """The body sent to the API's path, live or in a batch."""
    body: dict[str, Any] = {"model": options.model}
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if prompt.tools:
        body |= {"tools": list(prompt.tools), "tool_choice": "none"}
    most = _most_of(prompt, options, learned or Learned())
    system = _sendable(prompt.system)
    messages = [*prompt.before, {"role": "user", "content": _sendable(prompt.user)}]
    form = {"type": "json_schema", "name": "answer", "strict": True, "schema": prompt.schema}
    if options.api == "responses":
        body |= {"instructions": system, "input": messages, "store": False}
        body |= {"text": {"format": form}} if prompt.schema else {}
        if options.reasoning_effort:
            body["reasoning"] = {"effort": options.reasoning_effort}
        return body | {"max_output_tokens": most}
    if system:
        messages = [{"role": "system", "content": system}, *messages]
    if prompt.schema:
        kind = form.pop("type")
        body["response_format"] = {"type": kind, kind: form}
    if options.reasoning_effort:
        body["reasoning_effort"] = options.reasoning_effort
    return body | {"messages": messages, "max_completion_tokens": most, "max_tokens": most}


_LOW: Final = 0.2
"""A record of what was said needs no fancy."""

_ROOM: Final = 1024
"""Tokens a model may reason before its answer, until it is known how many it takes."""

_MORE_ROOM: Final = 4

_LIMITS: Final = ("max_tokens", "max_completion_tokens")
_OPTIONAL: Final = (
    *("response_format", "text", "temperature", "reasoning_effort", "reasoning", *_LIMITS),
    *("stream_options", "stream", "tool_choice"),
)
"""What a request can do without, if it must. Of two names of one thing, the newer comes last."""

_NOT_TO_ITS_LIKING: Final = (400, 422)


@dataclass(slots=True)
class Learned:
    """What a model at an endpoint was found to take and to need; forgotten with the process.

    Attributes:
        left_out: parameters it does not take.
        room: tokens it is given to reason before its answer.
    """

    left_out: frozenset[str] = frozenset()
    room: int = _ROOM

    def kept(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body without what is left out."""
        return {name: value for name, value in body.items() if name not in self.left_out}

    def heed(self, answer: Answer, limit: int) -> None:
        """Make room for as much reasoning as the answer had, and for twice as much to come."""
        if answer.reasoned:
            more = self.room * _MORE_ROOM if answer.is_cut_by_reasoning(limit) else 0
            self.room = max(self.room, answer.reasoned * 2, more)
        elif answer.has_usage and self.room == _ROOM:
            self.room = 0


def _respond(
    client: openai.OpenAI, prompt: Prompt, options: ModelOptions, learned: Learned
) -> Answer:
    """The answer, if need be to the request without what the endpoint does not take of it."""
    body = {"temperature": _LOW, "stream": True} | body_of(prompt, options, learned)
    if options.api == "chat":
        body["stream_options"] = {"include_usage": True}
    found = replace(learned)
    first: openai.APIStatusError | None = None
    while True:
        try:
            answer = _sent(client, found.kept(body), prompt, options)
        except openai.APIStatusError as error:
            refused = _refused(error, found.kept(body))
            first = first or error
            if not refused:
                raise first from None
            found.left_out |= refused
        else:
            break
    if first is not None:
        left_out = sorted(found.left_out - learned.left_out)
        log.info("parameters left out", model=options.model, names=left_out)
        learned.left_out |= found.left_out
    return answer


def _refused(error: openai.APIStatusError, body: Mapping[str, Any]) -> frozenset[str]:
    """What of a refused body to leave out: what the error names, or all that can be."""
    if error.status_code not in _NOT_TO_ITS_LIKING or error.code == _TOO_LONG:
        return frozenset()
    names = [name for name in _OPTIONAL if name in body]
    if not all(name in names for name in _LIMITS):
        # One limit stays in any case.
        names = [name for name in names if name not in _LIMITS]
    if error.param:
        return frozenset({str(error.param).partition(".")[0]}).intersection(names)
    for name in names:
        spelled = "text.format" if name == "text" else name.replace("_", "[_ -]?")
        if re.search(rf"\b{spelled}\b", error.message, re.IGNORECASE):
            return frozenset({name})
    return frozenset(names) - {_LIMITS[0]}


def _sent(
    client: openai.OpenAI, body: Mapping[str, Any], prompt: Prompt, options: ModelOptions
) -> Answer:
    path = "/responses" if options.api == "responses" else "/chat/completions"
    most = next(body[name] for name in (*_LIMITS, "max_output_tokens") if name in body)
    written = Transcript(limit=prompt.limit or most, with_reasoning=most)
    said = _tokens(_said(prompt))
    # Not by ``create``: its work on the hundred parameters we do not use takes as long as
    # all checks of the answer.
    with client.post(
        path,
        cast_to=object,
        body=body,
        options={"timeout": openai.Timeout(options.timeout_s, connect=_CONNECT_S)},
        stream=True,
        stream_cls=openai.Stream[object],
    ) as stream:
        shape = _shape(stream.response, written, said)
    if options.api == "responses":
        answer = from_response(Response.construct(**shape))
    else:
        answer = from_chat(ChatCompletion.construct(**shape))
    if answer.has_usage or not written.chars:
        return answer
    # What we cut off is paid for, and nobody tells how much it was.
    wrote = _tokens(written.chars)
    return replace(answer, has_usage=True, prompt_tokens=said, completion_tokens=wrote)


def _shape(response: httpx2.Response, written: Transcript, said: int) -> Any:
    """An answer as it came in one piece, or as far as a stream told it."""
    if "event-stream" not in response.headers.get("content-type", ""):
        # The endpoint knows of no streams, or was asked for none.
        with _as_of_the_package(response):
            return json.loads(response.read())
    call = _CALL.get() or Call(math.inf)
    try:
        _listen(response, written, call)
    except openai.APIError:
        if call.is_over and written.chars:
            written.ended = "length"
        elif not written.is_whole:
            call.lose(said, _tokens(written.chars))
            raise
    if not (written.chars or written.is_whole):
        raise TypeError("no event of the API")
    return written.shape()


def _listen(response: httpx2.Response, written: Transcript, call: Call) -> None:
    """Write down what a stream says, to its end or until it has said enough."""
    for event in _events(response):
        if event is None:
            call.ends()
        elif written.add(event):
            call.goes_on()
        if call.is_over:
            written.ended = written.ended or "length"
        if written.ended:
            return


def _events(response: httpx2.Response) -> Iterator[Any]:
    """The events of a stream, and None after the last; the package's way takes twice as long."""
    rest = b""
    with _as_of_the_package(response):
        for piece in response.iter_raw():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if not line.startswith(_DATA):
                    continue
                data = line.removeprefix(_DATA).strip()
                event = None if data == _DONE else json.loads(data)
                if event and (event.get("error") or event.get("type") == "error"):
                    raise openai.APIError("in the stream", response.request, body=None)
                yield event


@contextmanager
def _as_of_the_package(response: httpx2.Response) -> Iterator[None]:
    """Errors of the HTTP library become those the package makes of them elsewhere."""
    try:
        yield
    except httpx2.TimeoutException as error:
        raise openai.APITimeoutError(response.request) from error
    except httpx2.RequestError as error:
        raise openai.APIConnectionError(request=response.request) from error


_LOOK_S: Final = 20.0
_LOOK_AGAIN_S: Final = 60.0
_THE_ONLY: Final = ""
"""A server that has one model answers with it whatever it is asked for."""

_WINDOWS: Final = (
    *("context_length", "max_model_len", "context_window", "max_context_length"),
    *("n_ctx", "n_ctx_train"),
)
"""What servers call a model's window: OpenRouter, vLLM, Groq, Mistral, and llama.cpp."""


def _windows(client: openai.OpenAI) -> dict[str, int]:
    """The windows of the models that the endpoint tells of: of several numbers, the least."""
    listed: Any = client.get(
        "/models", cast_to=object, options={"timeout": openai.Timeout(_LOOK_S, connect=_CONNECT_S)}
    )
    found: dict[str, int] = {}
    for each in listed["data"]:
        about = (each.get("meta") or {}) | each
        told = [about[name] for name in _WINDOWS if isinstance(about.get(name), int)]
        if positive := [tokens for tokens in told if tokens > 0]:
            found[str(each.get("id"))] = min(positive)
    if len(listed["data"]) == 1:
        found[_THE_ONLY] = max(found.values(), default=0)
    return found


def read_key(key: SecretStr, *, file: Path | None = None) -> SecretStr:
    """The key: as given, or else what the file holds, without blanks around it.

    Raises:
        SummarizerMisconfigured: neither; names the file, never what is in it.
    """
    if key.get_secret_value():
        return key
    if file is None:
        raise SummarizerMisconfigured("no key for the model: give one, or a file that holds it")
    try:
        text = read_secret(file)
    except InvalidInput as error:
        raise SummarizerMisconfigured(f"the model's key: {error}") from None
    if not text:
        raise SummarizerMisconfigured(f"the model's key: {file} is empty")
    return SecretStr(text)


def _is_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        return False


def _sendable(text: str) -> str:
    """The text without lone surrogates, which are not UTF-8."""
    return text.encode("utf-8", "replace").decode()


_PATIENCE_S: Final = 2.0
"""A shorter pause is waited out here: giving up would throw away the parts written so far."""

_OUTPUT_SHARE: Final = 4
"""Few answers take more than this part of what they may; what they took is known afterwards."""


class Endpoint(Protocol):
    """Answers prompts."""

    def ask(
        self, prompt: Prompt, options: ModelOptions, alive: Callable[[], object] = _nothing
    ) -> Answer:
        """See ``ModelEndpoint.ask``."""

    def body(self, prompt: Prompt, options: ModelOptions) -> dict[str, Any]:
        """See ``ModelEndpoint.body``."""

    def run(self, call: Callable[[OpenAI], T], options: ModelOptions) -> T:
        """See ``ModelEndpoint.run``."""


class GatedEndpoint:
    """Asks only when the gate lets it."""

    def __init__(
        self, endpoint: Endpoint, gate: Gate, *, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._endpoint = endpoint
        self._gate = gate
        self._sleep = sleep

    def ask(
        self, prompt: Prompt, options: ModelOptions, alive: Callable[[], object] = _nothing
    ) -> Answer:
        """The model's answer, whatever it is worth.

        Raises:
            CircuitOpen, RateLimited: it was not asked, or said 429; worth a try later.
            SummarizerUnavailable: the same request may succeed later.
            SummarizerMisconfigured: it will not.
        """
        tokens = _estimated(prompt, options)
        with ExitStack() as held:
            round_, keep = self._admitted(held, tokens, options.timeout_s)

            def going_on() -> None:
                alive()
                keep()

            try:
                with telemetry.ModelCall(options.model, options.max_output_tokens) as call:
                    answer = self._endpoint.ask(prompt, options, going_on)
                    call.answered(answer.model, answer.prompt_tokens, answer.completion_tokens)
            except (SummarizerUnavailable, EndpointRefused) as error:
                self._gate.failed(round_, error, estimated=tokens)
                raise
            except SummarizerFailed:
                # The endpoint works; it refuses only this request.
                self._gate.answered(round_, estimated=tokens, used=0)
                raise
            used = answer.prompt_tokens + answer.completion_tokens if answer.has_usage else tokens
            self._gate.answered(round_, estimated=tokens, used=used)
            return answer

    def body(self, prompt: Prompt, options: ModelOptions) -> dict[str, Any]:
        """See ``ModelEndpoint.body``."""
        return self._endpoint.body(prompt, options)

    def run(self, call: Callable[[OpenAI], T], options: ModelOptions) -> T:
        """What the call gets; it asks no model, so the gate need not admit it."""
        return self._endpoint.run(call, options)

    def _admitted(
        self, held: ExitStack, tokens: int, within_s: float
    ) -> tuple[int | None, Callable[[], object]]:
        """The call's round, and what keeps its place, which is ``held``."""
        patience_s = _PATIENCE_S
        while True:
            try:
                keep = held.enter_context(self._gate.place(within_s=within_s))
                return self._gate.admit(tokens=tokens, within_s=within_s), keep
            except RateLimited as error:
                held.close()
                wait_s = error.retry_after_s or 0.0
                if wait_s > patience_s:
                    raise
                patience_s -= max(wait_s, 0.01)
                self._sleep(wait_s)


def _estimated(prompt: Prompt, options: ModelOptions) -> int:
    """Tokens a call is expected to be billed: what it says, and a part of what it may answer."""
    limit = min(prompt.limit or options.max_output_tokens, options.max_output_tokens)
    return _tokens(_said(prompt)) + limit // _OUTPUT_SHARE


def _said(prompt: Prompt) -> int:
    """Characters of a prompt."""
    before = sum(len(encode_json(each)) for each in (*prompt.before, *prompt.tools))
    return len(prompt.system) + len(prompt.user) + before
