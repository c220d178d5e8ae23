"""The operator's file of quotas."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from turnmill.contract.names import Namespace
from turnmill_worker.background.quotas import Quota, Quotas
from turnmill_worker.errors import InvalidSettings

ACME, OTHER = Namespace("acme"), Namespace("other")


def test_a_namespace_has_its_own_quotas_and_the_others_by_default(tmp_path: Path) -> None:
    file = tmp_path / "quotas.toml"
    file.write_text("[default]\nsessions = 9\nmemories = 5\n[namespaces.acme]\nsessions = 2\n")

    quotas = Quotas(file)

    assert quotas.of(ACME) == Quota(sessions=2, memories=5)
    assert quotas.of(OTHER) == Quota(sessions=9, memories=5)
    assert Quotas(None).of(ACME) == Quota()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[default]\nsesions = 2\n", "default.sesions"),
        ("[default]\nsessions = 0\n", "default.sessions: Input should be greater than 0"),
        ("[namespaces.acme]\npushes_per_second = -1\n", "namespaces.acme.pushes_per_second"),
        ("default = [\n", "quotas.toml"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_wrong_is_refused_at_the_start(
    tmp_path: Path, text: str | None, said: str
) -> None:
    file = tmp_path / "quotas.toml"
    if text is not None:
        file.write_text(text)

    with pytest.raises(InvalidSettings, match=said):
        Quotas(file)


def test_a_changed_file_counts_unless_it_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "quotas.toml"
    file.write_text("[default]\nsessions = 2\n")
    quotas = Quotas(file)

    for at, (text, sessions) in enumerate(
        [("[default]\nsessions = 7\n", 7), ("[default]\nsessions = no\n", 7), ("", None)], 1
    ):
        file.write_text(text)
        os.utime(file, (at, at))
        quotas.read_again()
        assert quotas.of(ACME).sessions == sessions
