"""One endpoint, one key: a prompt goes out, an answer or one of our errors comes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar
from urllib.parse import urlsplit

import openai
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from pydantic import SecretStr

from turnmill.connection.credentials import read_secret
from turnmill.contract.errors import InvalidInput
from turnmill_worker.errors import SummarizerMisconfigured, SummarizerUnavailable
from turnmill_worker.summarizers.openai.answers import Answer, from_chat, from_response
from turnmill_worker.summarizers.openai.call_limits import MOST_BYTES, bounded_client, one_call
from turnmill_worker.summarizers.openai.error_translation import translated

__all__ = [
    "OPENAI_URL",
    "Api",
    "ModelEndpoint",
    "ModelOptions",
    "Prompt",
    "body_of",
    "read_key",
]

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
