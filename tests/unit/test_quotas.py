"""The operator's file of quotas."""

from __future__ import annotations

import os
from pathlib import Path

from turnmill.contract.names import Namespace
from turnmill_worker.background.quotas import Quota, Quotas

ACME, OTHER = Namespace("acme"), Namespace("other")


def test_a_namespace_has_its_own_quotas_and_the_others_by_default(tmp_path: Path) -> None:
    file = tmp_path / "quotas.toml"
    file.write_text("[default]\nsessions = 9\nmemories = 5\n[namespaces.acme]\nsessions = 2\n")

    quotas = Quotas(file)

    assert quotas.of(ACME) == Quota(sessions=2, memories=5)
    assert quotas.of(OTHER) == Quota(sessions=9, memories=5)
    assert Quotas(None).of(ACME) == Quota()


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
