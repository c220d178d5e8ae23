"""What ``import turnmill`` gives, and that both clients are one surface."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import pytest

import turnmill
from turnmill import (
    AsyncContextClient,
    AsyncContextManager,
    ContextClient,
    ContextManager,
)
from turnmill.client._async.session import AsyncRecallTool
from turnmill.client._sync.session import RecallTool
from turnmill.contract import errors

TWINS = [
    (ContextClient, AsyncContextClient),
    (ContextManager, AsyncContextManager),
    (RecallTool, AsyncRecallTool),
]

PUBLIC = set(
    """
    AsyncContextClient AsyncContextManager ContextClient ContextManager
    AsyncRecallTool RecallTool
    Context ContextInfo Limits Message Policy Pushed QualityWeights Receipt
    SummaryEvent Turn Usage Wait
    Bill Checkpoint Forgotten Forked GroundedContext GroundedMemory ParkedSession RollbackResult
    Rule SessionPage SummarizationResult TurnResult
    CommittedContext Compaction StoredContext Trajectory TrajectoryTurn
    CeleryWaker HintCounts SilentWaker Waker
    Cipher
    ArchiveUnavailable CannotDecrypt CorruptContext InvalidInput InvalidName InvalidPolicy
    InvalidTemplate InvalidTurn NewerFormat NoCheckpoint NotAnswered NotPermitted QuotaExceeded
    ScriptContract SessionBusy StoreFull StoreRefused StoreUnavailable SystemPromptTooLarge
    Transient TurnConflict TurnTooLarge TurnmillError UnknownEncoding UnknownPolicy UnknownSession
    UnknownTemplate
    """.split()  # noqa: SIM905 - grouped as in the package
)


def public(client: type) -> dict[str, Any]:
    return {name: member for name, member in vars(client).items() if not name.startswith("_")}


def test_type_checkers_and_documents_find_every_name_where_it_is_imported() -> None:
    nodes = ast.walk(ast.parse(inspect.getsource(turnmill)))
    imported = {
        each.name for node in nodes if isinstance(node, ast.ImportFrom) for each in node.names
    }

    assert set(turnmill.__all__) - {"__version__"} <= imported


def test_the_public_names_are_these() -> None:
    assert set(turnmill.__all__) == PUBLIC


def test_every_public_name_is_there() -> None:
    assert all(hasattr(turnmill, name) for name in turnmill.__all__)


def test_every_error_is_public() -> None:
    found = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.TurnmillError)
    }

    assert found <= set(turnmill.__all__)


@pytest.mark.parametrize(("sync", "asynchronous"), TWINS)
def test_both_twins_have_the_same_methods(sync: type, asynchronous: type) -> None:
    assert list(public(sync)) == list(public(asynchronous))


@pytest.mark.parametrize(("sync", "asynchronous"), TWINS)
def test_both_twins_take_the_same_arguments_and_give_the_same_values(
    sync: type, asynchronous: type
) -> None:
    for name, member in public(sync).items():
        twin = public(asynchronous)[name]
        if not isinstance(member, property):
            given = str(inspect.signature(twin)).replace("AsyncContext", "Context")
            assert str(inspect.signature(member)) == given, name


@pytest.mark.parametrize("asynchronous", [twin for _, twin in TWINS])
def test_every_method_that_waits_is_a_coroutine(asynchronous: type) -> None:
    for name, member in public(asynchronous).items():
        assert isinstance(member, property) or inspect.iscoroutinefunction(member), name
