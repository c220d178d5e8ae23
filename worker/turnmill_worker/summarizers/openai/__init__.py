"""The summarizer that asks a model, at any endpoint that speaks OpenAI's API."""

from turnmill_worker.errors import (
    CircuitOpen,
    EndpointRefused,
    RateLimited,
    SummarizerMisconfigured,
    SummarizerUnavailable,
    UnusableSummary,
)
from turnmill_worker.spending import Spent
from turnmill_worker.summarizers.openai.endpoint import ModelEndpoint, ModelOptions, read_key
from turnmill_worker.summarizers.openai.prices import Prices, load_prices
from turnmill_worker.summarizers.openai.redaction import Redactor, load_redactor, redact
from turnmill_worker.summarizers.openai.summarizer import OpenAiSummarizer

__all__ = [
    "CircuitOpen",
    "EndpointRefused",
    "ModelEndpoint",
    "ModelOptions",
    "OpenAiSummarizer",
    "Prices",
    "RateLimited",
    "Redactor",
    "Spent",
    "SummarizerMisconfigured",
    "SummarizerUnavailable",
    "UnusableSummary",
    "load_prices",
    "load_redactor",
    "read_key",
    "redact",
]
