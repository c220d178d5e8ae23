"""One endpoint, one key: a prompt goes out, an answer or one of our errors comes back.

Within limits of time and bytes, and behind the gate that all workers share.
"""

from __future__ import annotations

import math
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final, Literal, Protocol, Self, TypeVar
from urllib.parse import urlsplit

import httpcore2
import httpx2
import openai
from openai import OpenAI
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from pydantic import SecretStr

from turnmill.connection.credentials import read_secret
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

_MOST_TOKENS: Final = 2**31
"""More is no number of tokens, and databases cannot store it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back.

    Attributes:
        finish: ``stop`` when the model had finished, else why it stopped.
        refused: the model refused by the API's own means.
        model: the name the endpoint gives it.
        has_usage: the numbers below are the endpoint's.
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
    batched: bool = False


def from_chat(completion: Any) -> Answer:
    """The answer in a chat completion; raises attribute, index or type errors if it is none."""
    choice = completion.choices[0]
    text = choice.message.content or ""
    refused = bool(getattr(choice.message, "refusal", None))
    if not isinstance(text, str):
        raise TypeError("content is not text")
    # Some servers leave the reason out; a text that ends is taken to be whole only with one.
    usage = completion.usage
    details = getattr(usage, "prompt_tokens_details", None)
    return Answer(
        text=text,
        finish=str(choice.finish_reason or "unknown"),
        refused=refused,
        model=str(completion.model or ""),
        has_usage=usage is not None,
        prompt_tokens=_number(usage, "prompt_tokens"),
        cached_tokens=_number(details, "cached_tokens"),
        completion_tokens=_number(usage, "completion_tokens"),
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


MOST_BYTES: Final = 4 * 1024 * 1024
"""Bytes of an answer with its headers: a hundred times what a long summary needs."""


_PIECE: Final = 16 * 1024


class Call:
    """A call under way, which one thread makes from its beginning to its end."""

    def __init__(self, timeout_s: float) -> None:
        self._deadline = time.monotonic() + timeout_s
        self._read = 0

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
def one_call(timeout_s: float) -> Iterator[Call]:
    """Everything this thread does over a bounded client in the block counts as one call."""
    call = Call(timeout_s)
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
        received = self._inner.read(max_bytes, _left_s(timeout, httpcore2.ReadTimeout))
        call = _CALL.get()
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
        return SummarizerUnavailable(f"{model}: no answer within {timeout_s:g} s")
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
        temperature: left to the model when None; reasoning models refuse any other.
        max_output_tokens: most tokens of one answer, reasoning included.
        window_tokens: what the model takes, input and output together.
        timeout_s: most time of one call, from its beginning to the last byte of the answer.
        api: which of the two APIs is spoken.
    """

    model: str
    temperature: float | None = None
    max_output_tokens: int = 4096
    window_tokens: int = 128_000
    timeout_s: float = 60.0
    api: Api = "chat"


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is told (``system``) and given (``user``)."""

    system: str = field(repr=False)
    user: str = field(repr=False)


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

    def ask(self, prompt: Prompt, options: ModelOptions) -> Answer:
        """The model's answer, whatever it is worth.

        Raises:
            SummarizerUnavailable: the same request may succeed later.
            SummarizerMisconfigured: it will not.
        """
        return self.run(lambda client: _respond(client, prompt, options), options)

    def run(self, call: Callable[[openai.OpenAI], T], options: ModelOptions) -> T:
        """What the call gets from the endpoint; errors as of ``ask``, which name this model."""
        failure: SummarizerUnavailable | SummarizerMisconfigured
        with one_call(options.timeout_s) as bounds:
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
        if bounds.is_too_large:
            failure = SummarizerUnavailable(
                f"{options.model}: an answer of more than {MOST_BYTES:,} bytes"
            )
        # Out here, so that the original is not even the new error's context.
        raise failure


def body_of(prompt: Prompt, options: ModelOptions) -> dict[str, Any]:
    """The body sent to the API's path, live or in a batch."""
    body: dict[str, Any] = {"model": options.model}
    if options.temperature is not None:
        body["temperature"] = options.temperature
    system, user = _sendable(prompt.system), _sendable(prompt.user)
    if options.api == "responses":
        body |= {"instructions": system, "input": user, "store": False}
        return body | {"max_output_tokens": options.max_output_tokens}
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return body | {"messages": messages, "max_completion_tokens": options.max_output_tokens}


def _respond(client: openai.OpenAI, prompt: Prompt, options: ModelOptions) -> Answer:
    # Not by ``create``: its work on the hundred parameters we do not use takes as long as
    # all checks of the answer.
    body = body_of(prompt, options)
    timeout = openai.Timeout(options.timeout_s, connect=_CONNECT_S)
    if options.api == "responses":
        return from_response(
            client.post("/responses", cast_to=Response, body=body, options={"timeout": timeout})
        )
    return from_chat(
        client.post(
            "/chat/completions", cast_to=ChatCompletion, body=body, options={"timeout": timeout}
        )
    )


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

_CHARS_PER_TOKEN: Final = 3.5
_OUTPUT_SHARE: Final = 4
"""Few answers take more than this part of what they may; what they took is known afterwards."""


class Endpoint(Protocol):
    """Answers prompts."""

    def ask(self, prompt: Prompt, options: ModelOptions) -> Answer:
        """See ``ModelEndpoint.ask``."""

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

    def ask(self, prompt: Prompt, options: ModelOptions) -> Answer:
        """The model's answer, whatever it is worth.

        Raises:
            CircuitOpen, RateLimited: it was not asked, or said 429; worth a try later.
            SummarizerUnavailable: the same request may succeed later.
            SummarizerMisconfigured: it will not.
        """
        tokens = _estimated(prompt, options)
        round_ = self._admitted(tokens, options.timeout_s)
        try:
            with telemetry.ModelCall(options.model, options.max_output_tokens) as call:
                answer = self._endpoint.ask(prompt, options)
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

    def run(self, call: Callable[[OpenAI], T], options: ModelOptions) -> T:
        """What the call gets; it asks no model, so the gate need not admit it."""
        return self._endpoint.run(call, options)

    def _admitted(self, tokens: int, within_s: float) -> int | None:
        patience_s = _PATIENCE_S
        while True:
            try:
                return self._gate.admit(tokens=tokens, within_s=within_s)
            except RateLimited as error:
                wait_s = error.retry_after_s or 0.0
                if wait_s > patience_s:
                    raise
                patience_s -= max(wait_s, 0.01)
                self._sleep(wait_s)


def _estimated(prompt: Prompt, options: ModelOptions) -> int:
    """Tokens a call is expected to be billed: what it says, and a part of what it may answer."""
    said = len(prompt.system) + len(prompt.user)
    return math.ceil(said / _CHARS_PER_TOKEN) + options.max_output_tokens // _OUTPUT_SHARE
