"""Fits `leads.bin`: what stands before a colon that hands over what somebody else wrote."""

from __future__ import annotations

from benchmarks.fit import labelled
from benchmarks.fit.regression import Example, fitted
from turnmill_worker.reading import own_words

STRENGTH = 0.5


def weights() -> bytes:
    """The weights, as `reading.own_words` reads them."""
    examples = [
        Example(sorted(own_words.lead_buckets(lead)), 1.0, handed)
        for lead, handed in labelled.leads()
    ]
    return fitted(examples, size=own_words.MASK + 1, strength=STRENGTH, unit=own_words.UNIT)
