"""The summarizer that asks a model, at any endpoint that speaks OpenAI's API."""

from turnmill_worker.summarizers.openai.client import ModelEndpoint, ModelOptions, read_key
from turnmill_worker.summarizers.openai.errors import (
    CircuitOpen,
    EndpointRefused,
    RateLimited,
    Spent,
    SummarizerMisconfigured,
    SummarizerUnavailable,
    UnusableSummary,
)
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
