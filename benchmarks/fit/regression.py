"""A logistic regression, as signed bytes: what a step is worth is the reader's to know."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

MOST = 127
"""Steps of a weight."""


class Example(NamedTuple):
    """Features, what each is worth, whether this is what is sought, and what the example weighs."""

    buckets: Sequence[int]
    value: float
    is_one: bool
    weight: float = 1.0


def fitted(examples: Sequence[Example], *, size: int, strength: float, unit: float) -> bytes:
    """The weights of ``size`` features and the bias; a small ``strength`` keeps them small."""
    # Not among what developing takes.
    import numpy as np  # noqa: PLC0415
    from scipy.sparse import csr_matrix  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    columns = np.fromiter(chain.from_iterable(each.buckets for each in examples), np.int32)
    lengths = [len(each.buckets) for each in examples]
    values = np.repeat([each.value for each in examples], lengths)
    matrix = csr_matrix((values, columns, np.cumsum([0, *lengths])), (len(examples), size))
    matrix.sum_duplicates()
    regression = LogisticRegression(C=strength, max_iter=ROUNDS, tol=TOLERANCE)
    regression.fit(
        matrix,
        [each.is_one for each in examples],
        sample_weight=[each.weight for each in examples],
    )
    weights = (*regression.coef_[0], regression.intercept_[0])
    steps = (max(-MOST, min(MOST, round(weight / unit))) for weight in weights)
    return array("b", steps).tobytes()


ROUNDS, TOLERANCE = 600, 1e-5
