"""The limits and preferences a session is compacted under."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidationError, model_validator

from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.context import Limits
from turnmill.contract.errors import InvalidPolicy
from turnmill.contract.estimate import ENCODINGS, is_encoding
from turnmill.contract.formats import Strict, is_newer, refuse_newer, stamp, unreadable
from turnmill.contract.image_tokens import DEFAULT_FORMULA, FORMULAS
from turnmill.contract.names import MAX_SEQ, STRATEGY_NAME, SUMMARIZER_NAME, TEMPLATE_NAME
from turnmill.contract.turns import explain


class QualityWeights(Strict):
    """What the parts of the quality score weigh against each other; only their ratios matter.

    Pair validity has no weight: a context a provider would refuse scores 0 whatever else is
    right with it.

    Attributes:
        facts: facts of the covered turns that can still be read.
        relevance: the same, for what the newest turns talk about.
        freshness: newest turns kept word for word, of those the policy wants.
        session: turns there are to each compaction; falls as a session thrashes.

    Raises:
        InvalidPolicy: a weight is negative or no number, or all are 0.
    """

    facts: float = Field(default=0.6, ge=0, allow_inf_nan=False)
    relevance: float = Field(default=0.2, ge=0, allow_inf_nan=False)
    freshness: float = Field(default=0.1, ge=0, allow_inf_nan=False)
    session: float = Field(default=0.1, ge=0, allow_inf_nan=False)

    if not TYPE_CHECKING:  # type checkers see the fields instead

        def __init__(self, **fields: Any) -> None:
            try:
                super().__init__(**fields)
            except ValidationError as error:
                told = explain(error, names_are_content=False)
                raise InvalidPolicy(f"quality_weights: {told}") from None

    @model_validator(mode="after")
    def _some_part_counts(self) -> Self:
        if self.facts + self.relevance + self.freshness + self.session <= 0:
            raise ValueError("one of facts, relevance, freshness, session must be above 0")
        return self


StrategyName = Annotated[str, Field(pattern=STRATEGY_NAME)]
"""images, elide, iterations, managed, rolling, window, or what packages offer to workers."""

OFFLINE: Final = "extractive"
"""The summarizer every worker has: it asks no model, and stands in for all others."""

OWN_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "strategies": ("images", "elide", "iterations", "managed", "rolling", "window"),
    "summarizer": (OFFLINE, "openai"),
}
"""What every worker has, by the policy's field. Packages offer others under names of theirs."""

MIN_ROOM_TOKENS = 256
"""Tokens a system prompt must leave for the conversation: a receipt and some of the last turn."""


_NEEDS = {
    "max_history_images": "images",
    "max_interactions": "window",
    "recent_runs": "managed",
    "passthrough_runs": "managed",
    "token_threshold": "managed",
    "template": "managed",
    "keep_recent_iterations": "iterations",
}
"""Fields that need this strategy; without it, any value but the default is refused."""

_FOR_A_MODEL = ("model", "fallback_model")
"""Fields refused when no model is asked, unless the policy itself names ``OFFLINE``."""


IDLE_S: Final = {"anthropic": 270, "anthropic-1h": 3420, "openai": 270, "openai-30m": 1710}
"""``compact_when_idle_s`` for what caches prompts for 5, 60, 5 and 30 minutes: a tenth, or three
minutes, before they expire. OpenAI's caches last for 30 minutes from GPT-5.6 on."""

_TARGET: Final = 0.5
_SUMMARY: Final = 0.35


class Policy(Strict):
    """How far a session may grow, and what is done when it has grown.

    The ratios are shares of the *room*: ``max_tokens - reserved_tokens`` less system prompt and
    tools, so a long prompt narrows the conversation but never makes the target unreachable.

    Attributes:
        max_tokens: the hard limit of a request in tokens, system prompt and tools included.
        reserved_tokens: part of ``max_tokens`` kept free for the model's reply, and for tools that
            ``open`` was not told of.
        soft_ratio: above this share of the room a compaction starts in the background.
        target_ratio: the share of the room a compaction aims for; less than ``soft_ratio``, so
            that commits are rare and the provider's prompt cache keeps hitting. Shortening alone
            may end two fifths of the way from here to ``soft_ratio``.
        compact_when_idle_s: a session above ``idle_ratio`` is compacted after so many seconds
            without a push and without an open call: just before the provider's prompt cache
            expires (``when_idle``) a changed prefix costs nothing extra. 0: never.
        idle_ratio: the share of the room from which on; halfway between the two above when None.
        summary_ratio: the share of the room for a summary, beside what turns leave of the target;
            .35, and less with a ``target_ratio`` below .5, unless it is given.
        ledger_ratio: the share of the summary's tokens set apart for the ledger, the facts kept
            word for word beside it; they also get what the summary leaves. 0 turns it off.
        recent_turns_to_keep: newest turns kept word for word as long as the target allows.
        min_progress_ratio: smallest share of the room a compaction must free to be worth it.
        elide_over_tokens: tool results above this are bulky; ``elide`` shortens old ones.
        strategies: tried in this order, cheap to expensive, until the target is reached; packages
            may offer others. A worker passes over those that it does not know, and says so.
        summarizer: who answers a summary request; ``extractive`` needs no model and no key,
            ``openai`` asks the workers' OpenAI-compatible endpoint; packages may offer other
            summarizers. If one keeps failing, writes nothing good enough or is not known to the
            worker, ``extractive`` stands in, and the compaction's record says why.
        model: the endpoint's name for the model; the workers' own when empty.
        fallback_model: asked when ``model`` fails, before ``extractive``; none when empty.
        temperature: of the model; low when None, or its default if it takes no other.
        reasoning_effort: of the model, such as ``low``; its default when empty.
        max_output_tokens: most tokens of one answer of the model, its reasoning included.
        batch: a model's summaries are asked for in batches, at half the price, while the session
            is far from its limits: each may take a day. For sessions that grow slowly, with a
            ``soft_ratio`` that leaves the time, and a ``target_ratio`` below it.
        summary_on: ``context``: a summary is asked for behind the context as the agent sends it,
            its system prompt and tools included, which a provider may bill as cached; operations.md
            says what that gives up. ``turns``: from the turns that leave, between marks.
        model_timeout_s: how long the model may be silent: until an answer begins, and between its
            pieces; one that is being written takes five times as long at most.
        model_attempts: how often a session that has room left waits for a model that fails for a
            passing reason before ``extractive`` stands in; 0: it stands in at once.
        park_after: compactions in a row that may fail before the session is parked: readable and
            pushable as before, but not compacted until somebody retries it.
        max_history_images: newest images kept, the others become a line of text; None: all.
        keep_first_image: the session's first image (the thumbnail) stays, and does not count.
        max_interactions: newest interactions (a user's message and all up to the next); None: all.
        keep_recent_iterations: newest iterations ``iterations`` keeps word for word.
        template: what ``managed`` tells the summarizer to write.
        recent_runs: newest runs (as interactions) ``managed`` summarizes; None or 0 turns it off.
        passthrough_runs: newest runs kept word for word beside the managed summary; None or 0
            leaves the summary and the latest input only.
        token_threshold: ``managed`` works once the session's whole history has this many tokens;
            None or 0: at every turn.
        quality_threshold: a compaction scoring below it is not committed; 0 lets all pass.
        quality_weights: of the score's parts.
        checkpoint_interval: turns between two automatic checkpoints; 0 makes none by itself.
        keep_checkpoints: newest checkpoints kept; 0 turns checkpoints off.
        grounding_memories: how many memories an input is grounded with.
        grounding_ratio: the share of the room those may take in the context; 0 leaves them out.
        recall_tool: the agent's model has ``recall``; receipts and the summary's head say so.
        image_formula: how the model's provider prices images, by the name of a model.
        cache_marks: contexts in Anthropic's shape carry ``cache_control`` behind the system prompt
            and behind what stands before the turns, instead of the marks of pushed messages.
        dialect: the shape of contexts; when empty, that of the first turn that tells, else chat.
        encoding: the tokenizer vocabulary the model counts with; ``file:NAME`` is the
            ``NAME.json`` in the workers' ``TURNMILL_TOKENIZER_DIR``.
        token_ratio: the model's tokens for one of ``encoding``, for a model with a vocabulary of
            its own; what the agent tells of usage takes its place.
        ttl_s: seconds a session lives in Redis after its last push.

    Raises:
        InvalidPolicy: names the field, or both fields of an impossible combination.
    """

    max_tokens: int = Field(default=8192, ge=2 * MIN_ROOM_TOKENS)
    reserved_tokens: int = Field(default=0, ge=0)
    soft_ratio: float = Field(default=0.8, gt=0, le=1)
    target_ratio: float = Field(default=_TARGET, gt=0, lt=1)
    compact_when_idle_s: float = Field(default=0.0, ge=0, le=24 * 3600)
    idle_ratio: float | None = Field(default=None, gt=0, le=1)
    summary_ratio: float = Field(default=_SUMMARY, gt=0, lt=1)
    ledger_ratio: float = Field(default=0.1, ge=0, lt=1)
    recent_turns_to_keep: int = Field(default=3, ge=0)
    min_progress_ratio: float = Field(default=0.1, ge=0, lt=1)
    elide_over_tokens: int = Field(default=200, ge=64)
    strategies: tuple[StrategyName, ...] = Field(
        default=("images", "elide", "rolling", "window"), min_length=1
    )
    summarizer: str = Field(default=OFFLINE, pattern=SUMMARIZER_NAME)
    model: str = Field(default="", max_length=200)
    fallback_model: str = Field(default="", max_length=200)
    temperature: float | None = Field(default=None, ge=0, le=2)
    reasoning_effort: str = Field(default="", pattern="^[a-z]{0,16}$")
    max_output_tokens: int = Field(default=4096, ge=64, le=1_000_000)
    batch: bool = False
    summary_on: Literal["turns", "context"] = "turns"
    model_timeout_s: float = Field(default=60.0, gt=0, le=600)
    model_attempts: int = Field(default=3, ge=0, le=20)
    park_after: int = Field(default=5, ge=1, le=100)
    max_history_images: int | None = Field(default=None, ge=0)
    keep_first_image: bool = True
    max_interactions: int | None = Field(default=None, ge=1)
    keep_recent_iterations: int = Field(default=3, ge=0)
    template: str = Field(default="default", pattern=TEMPLATE_NAME)
    recent_runs: int | None = Field(default=None, ge=0)
    passthrough_runs: int | None = Field(default=None, ge=0)
    token_threshold: int | None = Field(default=None, ge=0)
    quality_threshold: float = Field(default=0.6, ge=0, le=1)
    quality_weights: QualityWeights = QualityWeights()
    checkpoint_interval: int = Field(default=10, ge=0)
    keep_checkpoints: int = Field(default=10, ge=0, le=100)
    grounding_memories: int = Field(default=5, ge=0, le=100)
    grounding_ratio: float = Field(default=0.0, ge=0, lt=1)
    recall_tool: bool = False
    cache_marks: bool = False
    dialect: Literal["", "chat", "anthropic", "responses"] = ""
    image_formula: str = DEFAULT_FORMULA
    encoding: str = Field(default="o200k_base", min_length=1, max_length=64)
    token_ratio: float = Field(default=1.0, ge=0.5, le=4)
    ttl_s: int = Field(default=30 * 24 * 3600, ge=60, le=MAX_SEQ // 1000)

    if not TYPE_CHECKING:  # type checkers see the fields instead

        def __init__(self, **fields: Any) -> None:
            unknown = next((name for name in fields if name not in Policy.model_fields), None)
            if unknown is not None:
                raise InvalidPolicy(f"policy: {_no_field(unknown)}")
            try:
                super().__init__(**fields)
            except ValidationError as error:
                told = explain(error, names_are_content=False)
                raise InvalidPolicy(f"policy: {told}") from None

    @model_validator(mode="before")
    @classmethod
    def _summary_fits(cls, fields: Any) -> Any:
        """A smaller target leaves a summary the same part of it, where nothing else is said."""
        target = fields.get("target_ratio") if isinstance(fields, dict) else None
        if not isinstance(target, float) or target >= _TARGET or "summary_ratio" in fields:
            return fields
        return {**fields, "summary_ratio": round(_SUMMARY * target / _TARGET, 4)}

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        if self.target_ratio >= self.soft_ratio:
            raise ValueError(
                f"target_ratio {self.target_ratio:g} must lie in "
                f"(0, soft_ratio={self.soft_ratio:g})"
            )
        if self.idle_ratio is not None and not (
            self.target_ratio < self.idle_ratio <= self.soft_ratio
        ):
            raise ValueError(
                f"idle_ratio {self.idle_ratio:g} must lie in (target_ratio={self.target_ratio:g}, "
                f"soft_ratio={self.soft_ratio:g}]"
            )
        if self.summary_ratio >= self.target_ratio:
            raise ValueError(
                f"summary_ratio {self.summary_ratio:g} must lie in "
                f"(0, target_ratio={self.target_ratio:g})"
            )
        if self.max_tokens - self.reserved_tokens < 2 * MIN_ROOM_TOKENS:
            raise ValueError(
                f"reserved_tokens {self.reserved_tokens} must leave at least "
                f"{2 * MIN_ROOM_TOKENS} of max_tokens={self.max_tokens}"
            )
        if not is_encoding(self.encoding):
            raise ValueError(f"encoding must be one of {', '.join(ENCODINGS)}, or file:NAME")
        if self.image_formula not in FORMULAS:
            raise ValueError(f"image_formula must be one of {', '.join(FORMULAS)}")
        unsaid = () if "summarizer" in self.model_fields_set else _FOR_A_MODEL
        for field in ("batch", *unsaid):
            if getattr(self, field) and self.summarizer == OFFLINE:
                raise ValueError(
                    f"{field}={getattr(self, field)!r} needs summarizer='openai', "
                    f"not {self.summarizer!r}"
                )
        return self

    @model_validator(mode="after")
    def _batches_agree(self) -> Self:
        if self.batch and self.summary_on == "context":
            raise ValueError("summary_on='context' is for live requests: no batch is cached")
        return self

    @model_validator(mode="after")
    def _strategies_agree(self) -> Self:
        if len(set(self.strategies)) != len(self.strategies):
            raise ValueError("strategies must not name one twice")
        for field, strategy in _NEEDS.items():
            value = getattr(self, field)
            is_default = value == type(self).model_fields[field].default
            if not is_default and strategy not in self.strategies:
                raise ValueError(
                    f"{field}={value} needs {strategy!r} in strategies, "
                    f"which are {', '.join(self.strategies)}"
                )
        if {"iterations", "rolling"} <= set(self.strategies):
            raise ValueError("strategies must not have both 'iterations' and 'rolling'")
        if self.passthrough_runs and self.recent_runs and self.passthrough_runs > self.recent_runs:
            raise ValueError(
                f"passthrough_runs {self.passthrough_runs} must be at most "
                f"recent_runs={self.recent_runs}"
            )
        if self.grounding_ratio and not self.grounding_memories:
            raise ValueError(
                f"grounding_ratio {self.grounding_ratio:g} needs grounding_memories of at least 1"
            )
        if self.grounding_ratio + self.summary_ratio >= self.soft_ratio:
            raise ValueError(
                f"grounding_ratio {self.grounding_ratio:g} and summary_ratio "
                f"{self.summary_ratio:g} together must be less than soft_ratio="
                f"{self.soft_ratio:g}"
            )
        return self

    @classmethod
    def image_history(cls, **fields: Any) -> Self:
        """For agents that see images (specification 000): older ones leave, the first stays.

        Keeps all images until ``max_history_images`` is given.
        """
        return cls(**fields)

    @classmethod
    def sliding_window(cls, **fields: Any) -> Self:
        """The newest interactions, and nothing else (specification 001): no summary, no model."""
        return cls(**{"strategies": ("window",), "quality_threshold": 0.0, **fields})

    @classmethod
    def managed(cls, template: str = "default", **fields: Any) -> Self:
        """A summary written to a template before the newest runs (specification 002)."""
        recent = fields.get("recent_runs", 10)
        preset = {
            "template": template,
            "strategies": ("managed", "window"),
            "recent_runs": recent,
            "passthrough_runs": min(recent or 3, 3) if isinstance(recent, int | None) else 3,
            "quality_threshold": 0.0,
        }
        return cls(**{**preset, **fields})

    @classmethod
    def long_running(cls, **fields: Any) -> Self:
        """Summaries, grounding, quality gate and checkpoints (specification 003): the default."""
        return cls(**fields)

    @classmethod
    def iterations(cls, **fields: Any) -> Self:
        """One short summary per step of an agent loop (specification 004), above 150,000 tokens.

        ``max_tokens`` is where summarization begins: the soft limit is the hard one.
        """
        preset = {
            "max_tokens": 150_000,
            "soft_ratio": 1.0,
            "strategies": ("iterations", "window"),
            "quality_threshold": 0.0,
        }
        return cls(**{**preset, **fields})

    @classmethod
    def when_idle(cls, cache: str, **fields: Any) -> Self:
        """Compacted when it falls quiet, before this cache of prompts expires: one of ``IDLE_S``.

        Raises:
            InvalidPolicy: there is none of this name; also as for all fields.
        """
        if cache not in IDLE_S:
            raise InvalidPolicy(f"no cache {cache[:40]!r}: there are {', '.join(IDLE_S)}")
        return cls(**{"compact_when_idle_s": IDLE_S[cache], **fields})

    @classmethod
    def for_model(
        cls, name: str, *, models: Mapping[str, Any] | str | None = None, **fields: Any
    ) -> Self:
        """For a model by name: its window, less room for a reply; ``fields`` have precedence.

        ``models`` is a table, or a JSON file with one, that comes before the package's:
        ``{"my-model": {"window": 32768, "reply": 4096}}``.
        """
        from turnmill.contract.models import preset_for  # noqa: PLC0415 - few ask for one

        return cls(**preset_for(name, models, fields))

    @property
    def hard_limit(self) -> int:
        """Tokens a context may have, system prompt and tools included."""
        return self.max_tokens - self.reserved_tokens

    def limits(self, system_tokens: int, ratio: float = 0.0) -> Limits:
        """The absolute limits for a session whose system prompt and tools have this many tokens.

        In tokens of ``encoding``, of which the model has ``ratio`` for one: 0 is ``token_ratio``.
        """
        hard = int(self.hard_limit / (ratio or self.token_ratio))
        room = max(hard - system_tokens, 0)
        return Limits(
            hard=hard,
            soft=system_tokens + int(room * self.soft_ratio),
            target=system_tokens + int(room * self.target_ratio),
            room=room,
        )

    def idle_limit(self, limits: Limits) -> int:
        """Above it a session that falls quiet is compacted."""
        way = self.soft_ratio - self.target_ratio
        share = 0.5 if self.idle_ratio is None else (self.idle_ratio - self.target_ratio) / way
        return limits.target + int((limits.soft - limits.target) * share)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The policy in this JSON object.

        Raises:
            InvalidPolicy: not JSON, or a field is wrong.
        """
        try:
            fields = json.loads(text)
        except ValueError:
            raise InvalidPolicy(f"policy: {len(text)} characters that are not JSON") from None
        if not isinstance(fields, dict):
            raise InvalidPolicy(f"policy: must be a JSON object, got {type(fields).__name__}")
        return cls(**fields)


def _no_field(name: str) -> str:
    """What to say about an unknown field: the name that was probably meant, or all names."""
    from difflib import get_close_matches  # noqa: PLC0415 - for a mistake only

    close = get_close_matches(name, Policy.model_fields, n=1)
    meant = f"did you mean {close[0]}?" if close else f"fields are {', '.join(Policy.model_fields)}"
    return f"no field {name!r}; {meant}"


_SLIP: Final = 0.82
"""So alike two names are where one is a slip for the other: ``widnow``, ``opnai``."""


def refuse_slips(policy: Policy) -> None:
    """Refuse a name that nobody offers here and that is all but one of ours.

    Others pass: only the workers know what packages they have. So does one that begins with ours.

    Raises:
        InvalidPolicy: says what was probably meant, and what there is.
    """
    for field, own in OWN_NAMES.items():
        value = getattr(policy, field)
        names = (value,) if isinstance(value, str) else value
        for name in (each for each in names if each not in own):
            from difflib import get_close_matches  # noqa: PLC0415 - for a mistake, mostly

            close = get_close_matches(name, own, n=1, cutoff=_SLIP)
            if close and not name.startswith(close[0]) and name not in _offered(field):
                raise InvalidPolicy(
                    f"policy: {field}: nobody offers {name!r}; did you mean {close[0]!r}? There "
                    f"are {', '.join(own)}, and what packages offer as turnmill.{_GROUPS[field]}"
                )


_GROUPS: Final = {"strategies": "strategies", "summarizer": "summarizers"}


def _offered(field: str) -> set[str]:
    """What packages that are installed here offer."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - as above

    return {each.name for each in entry_points(group=f"turnmill.{_GROUPS[field]}")}


def policy_body(policy: Policy) -> bytes:
    """What ``stored_policy`` reads."""
    return encode_json({**policy.model_dump(mode="json"), **stamp()})


def stored_policy(body: bytes | str) -> Policy:
    """The policy as this version knows it: without the fields of newer ones.

    Raises:
        NewerFormat: a newer version wrote it, and this one cannot follow it.
        CorruptContext, InvalidPolicy: it is no policy.
    """
    what = "stored policy"
    try:
        fields = decode_json(body.encode() if isinstance(body, str) else body)
    except ValueError:
        raise InvalidPolicy(f"{what}: {len(body)} bytes that are not JSON") from None
    if not isinstance(fields, dict):
        raise InvalidPolicy(f"{what}: must be a JSON object, got {type(fields).__name__}")
    refuse_newer(fields, what)
    try:
        return Policy(**_known(fields))
    except InvalidPolicy as error:
        if is_newer(fields):
            raise unreadable(fields, what, str(error)) from None
        raise


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    known = {name: fields[name] for name in Policy.model_fields if name in fields}
    if isinstance(weights := known.get("quality_weights"), dict):
        names = QualityWeights.model_fields
        known["quality_weights"] = {name: weights[name] for name in names if name in weights}
    return known
