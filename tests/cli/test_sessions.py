"""Commands about sessions and policies, without any worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.cli.commands import Ran
from tests.redis.conftest import Worker
from turnmill import ContextClient, Policy
from turnmill.contract.keys import session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.store.sessions import RedisSessions

# --- sessions -------------------------------------------------------------------------------------

IMAGE = "data:image/png;base64,aGVsbG8="


def test_read_prints_the_messages_by_role(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a":1}'}}
    image = {"type": "image_url", "image_url": {"url": IMAGE}}
    link = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    client.open("s", system_prompt="be [bold]brief[/bold]")
    client.push("s", {"role": "user", "content": [{"type": "text", "text": "see"}, image, link]})
    client.push("s", {"role": "assistant", "content": None, "tool_calls": [call]})
    client.push("s", {"role": "tool", "tool_call_id": "c1", "content": "found\x1b[2J"})

    ran = turnmill("read", "s")

    assert ran.exit_code == 0
    assert "be [bold]brief[/bold]" in ran.stdout
    assert "[image_url: image/png, " in ran.stdout
    assert "https://example.com/a.png" in ran.stdout
    assert IMAGE not in ran.stdout
    assert '→ look({"a":1})' in ran.stdout
    assert "tool (c1)" in ran.stdout
    assert "\x1b" not in ran.stdout, "a message must not drive the terminal"
    assert "turns to 3" in ran.stdout


def test_read_json_is_the_bare_list_of_messages(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    client.push("s", {"role": "user", "content": "héllo \ud800"})

    ran = turnmill("read", "s", "--json")

    assert ran.json == client.read("s").messages


def test_sessions_are_listed_the_most_recently_pushed_first(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    for name in ("first", "second", "third"):
        client.push(name, {"role": "user", "content": "private words"})
        client.push(name, {"role": "user", "content": "more"})

    listed = turnmill("sessions", "--json").json
    table = turnmill("sessions", "--limit", "2")

    assert {row["session"] for row in listed} == {"first", "second", "third"}
    assert [row["last_seq"] for row in listed] == [2, 2, 2]
    assert "2 sessions" in table.stdout
    assert "and 1 more" in table.stdout
    assert "private" not in table.stdout


def test_an_empty_namespace_has_no_sessions(turnmill: Callable[..., Ran], namespace: str) -> None:
    assert f"no sessions in namespace {namespace};" in turnmill("sessions").stdout
    assert turnmill("sessions", "--json").json == []


def test_info_is_the_session_in_numbers(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    policy = Policy(max_tokens=600, compact_when_idle_s=9)
    client.open("s", policy, system_prompt="secret instructions")
    client.push("s", {"role": "user", "content": "private " * 500})

    table = turnmill("info", "s")
    found = turnmill("info", "s", "--json").json

    assert "1 pushed, 0 counted" in table.stdout
    assert "over its hard limit" in table.stdout
    assert f"when idle {policy.idle_limit(client.info('s').limits):,}" in table.stdout
    assert found["last_seq"] == 1
    assert found["policy"]["max_tokens"] == 600
    assert found["under_limit"] is False
    assert "secret" not in table.stdout + json.dumps(found)


def test_forget_asks_first(turnmill: Callable[..., Ran], client: ContextClient) -> None:
    client.push("s", {"role": "user", "content": "x"})

    refused = turnmill("forget", "s", stdin="n\n")

    assert refused.exit_code == 1
    assert "Forget s with its 1 turn, in Redis and the archive?" in refused.stderr
    assert client.info("s").last_seq == 1


# --- open -----------------------------------------------------------------------------------------


def test_open_takes_the_policy_and_the_prompt_from_files(
    turnmill: Callable[..., Ran], client: ContextClient, tmp_path: Path
) -> None:
    policy, prompt = tmp_path / "policy.json", tmp_path / "prompt.txt"
    policy.write_text('{"max_tokens": 5000, "recent_turns_to_keep": 7}')
    prompt.write_text("be kind")

    ran = turnmill("open", "s", "--policy", str(policy), "--system-prompt", f"@{prompt}")

    assert ran.exit_code == 0
    assert "hard limit 5,000" in ran.stdout
    assert client.info("s").policy.recent_turns_to_keep == 7
    assert client.read("s").messages == [{"role": "system", "content": "be kind"}]


def test_open_counts_the_schemas_of_tools_in_a_file(
    turnmill: Callable[..., Ran], client: ContextClient, tmp_path: Path
) -> None:
    file = tmp_path / "tools.json"
    file.write_text('[{"type": "function", "function": {"name": "look", "parameters": {}}}]')

    ran = turnmill("open", "s", "--tools", str(file))

    assert ran.exit_code == 0
    assert client.info("s").tools_tokens > 0


@pytest.mark.parametrize(("text", "says"), [("{", "not JSON"), ("{}", "must be a list")])
def test_a_file_that_holds_no_tools_is_refused(
    turnmill: Callable[..., Ran], tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "tools.json").write_text(text)

    ran = turnmill("open", "s", "--tools", str(tmp_path / "tools.json"))

    assert ran.exit_code == 2
    assert says in ran.stderr


@pytest.mark.parametrize(
    ("content", "exit_code", "says"),
    [(None, 2, "No such file"), (b"\xff", 2, "not UTF-8"), (b'{"max": 1}', 2, "InvalidPolicy")],
)
def test_a_policy_file_that_is_no_policy_is_named(
    turnmill: Callable[..., Ran],
    tmp_path: Path,
    content: bytes | None,
    exit_code: int,
    says: str,
) -> None:
    policy = tmp_path / "policy.json"
    if content is not None:
        policy.write_bytes(content)

    ran = turnmill("open", "s", "--policy", str(policy))

    assert ran.exit_code == exit_code
    assert says in ran.stderr


# --- policies -------------------------------------------------------------------------------------


def test_a_policy_is_set_listed_and_shown(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    ran = turnmill(
        "policies", "set", "shop", "--max-tokens", "3000", "--set", "summarizer=extractive"
    )
    listed = turnmill("policies", "list", "--json").json
    table = turnmill("policies", "list")
    shown = turnmill("policies", "show", "shop")

    assert ran.exit_code == 0
    assert "0 sessions took it up" in ran.stdout
    assert client.policies() == {"shop": Policy(max_tokens=3000)}
    assert listed["shop"]["max_tokens"] == 3000
    assert "3,000" in table.stdout
    assert "recent_turns_to_keep" in shown.stdout
    assert turnmill("policies", "show", "shop", "--json").json == listed["shop"]


def test_setting_again_changes_only_what_is_given_and_reaches_who_follows(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    turnmill("policies", "set", "shop", "--max-tokens", "3000", "--set", "recent_turns_to_keep=7")
    opened = turnmill("open", "s", "--policy", "shop")

    ran = turnmill("policies", "set", "shop", "--max-tokens", "4000")

    assert "opened s, policy shop: hard limit 3,000" in opened.stdout
    assert "1 session took it up" in ran.stdout
    assert client.info("s").policy == Policy(max_tokens=4000, recent_turns_to_keep=7)
    assert client.info("s").policy_name == "shop"
    assert "shop (2 changes)" in turnmill("info", "s").stdout


def test_an_option_beside_the_name_makes_a_policy_of_the_sessions_own(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    turnmill("policies", "set", "shop", "--set", "recent_turns_to_keep=7")

    turnmill("open", "s", "--policy", "shop", "--max-tokens", "2000")

    assert client.info("s").policy == Policy(recent_turns_to_keep=7, max_tokens=2000)
    assert client.info("s").policy_name == ""


def test_a_field_takes_json_and_plain_words(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    turnmill(
        *("open", "s", "--set", 'strategies=["elide","window"]', "--set", "encoding=cl100k_base"),
        *("--set", "keep_first_image=false"),
    )

    found = client.info("s").policy
    assert found.strategies == ("elide", "window")
    assert (found.encoding, found.keep_first_image) == ("cl100k_base", False)


@pytest.mark.parametrize(
    ("words", "exit_code", "says"),
    [
        (("policies", "show", "nope"), 1, "UnknownPolicy: no policy 'nope'"),
        (("policies", "set", "a", "--policy", "nope"), 1, "UnknownPolicy: no policy 'nope'"),
        (("open", "s", "--policy", "nope"), 1, "UnknownPolicy: no policy 'nope'"),
        (("policies", "set", "a", "--set", "nope=1"), 2, "InvalidPolicy: policy: no field 'nope'"),
        (("policies", "set", "a b"), 2, "Invalid"),
        (("policies", "set", "a", "--set", "max_tokens"), 2, "FIELD=VALUE"),
        (("policies", "set", "a", "--preset", "managed", "--policy", "b"), 2, "--preset"),
        (("policies", "set", "a", "--preset", "magic"), 2, "--preset"),
        (
            ("open", "s", "--set", "max_interactions=3", "--set", 'strategies=["rolling"]'),
            2,
            "max_interactions=3 needs 'window' in strategies",
        ),
        (("open", "s", "--set", 'strategies=["widnow"]'), 2, "did you mean 'window'?"),
        (("policies", "set", "a", "--set", "summarizer=opnai"), 2, "did you mean 'openai'?"),
    ],
)
def test_what_is_no_policy_is_one_clear_refusal(
    turnmill: Callable[..., Ran], words: tuple[str, ...], exit_code: int, says: str
) -> None:
    ran = turnmill(*words)

    assert ran.exit_code == exit_code
    assert says in ran.stderr
    assert ran.stdout == ""


# --- push -----------------------------------------------------------------------------------------

SECRET = "the vault code is 7731"  # noqa: S105 - what no error may repeat


def test_each_line_becomes_a_turn_and_its_seq_is_printed(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    lines = [
        {"role": "user", "content": "one"},
        [{"role": "assistant", "content": "two"}, {"role": "user", "content": "three"}],
        {"messages": [{"role": "assistant", "content": "four"}], "turn_id": "t-4"},
    ]

    ran = turnmill("push", "s", stdin="\n\n".join(json.dumps(line) for line in lines))

    assert ran.exit_code == 0
    assert ran.stdout.split() == ["1", "2", "3"]
    assert "pushed 3 turns to s" in ran.stderr
    assert [m["content"] for m in client.read("s").messages] == ["one", "two", "three", "four"]


def test_a_turn_id_pushed_again_is_a_duplicate(turnmill: Callable[..., Ran]) -> None:
    line = json.dumps({"messages": [{"role": "user", "content": "hi"}], "turn_id": "t"})

    ran = turnmill("push", "s", "--json", stdin=f"{line}\n{line}\n")

    assert [json.loads(text) for text in ran.stdout.splitlines()] == [
        {"seq": 1, "turn_id": "t", "duplicate": False},
        {"seq": 1, "turn_id": "t", "duplicate": True},
    ]
    assert "pushed 1 turn to s, 1 duplicate" in ran.stderr


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (f'{{"role": "user", "content": "{SECRET}"', "not JSON"),
        (json.dumps({"role": "robot", "content": SECRET}), "unknown role"),
        (json.dumps(SECRET), "bare str"),
        ("[]", "empty list"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_line_is_named_without_its_content_and_no_line_is_pushed(
    turnmill: Callable[..., Ran], client: ContextClient, line: str, says: str
) -> None:
    good = json.dumps({"role": "user", "content": "fine"})

    ran = turnmill("push", "s", stdin=f"{good}\n\n{line}\n{good}\n")

    assert ran.exit_code == 1
    assert ran.stdout == ""
    assert "line 3: InvalidTurn: " in ran.stderr
    assert says in ran.stderr
    assert "pushed 0 turns to s" in ran.stderr
    assert SECRET not in ran.stderr
    assert client.sessions() == []


def test_a_line_that_is_too_large_is_refused_or_cut_as_one_likes(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    lines = [json.dumps({"role": "user", "content": text}) for text in ("one", "x" * 1_500_000)]

    refused = turnmill("push", "s", stdin="\n".join(lines))
    stored = client.sessions()
    ran = turnmill("push", "s", "--on-too-large", "cut", stdin="\n".join(lines))

    assert (refused.exit_code, ran.exit_code) == (1, 0)
    assert "line 2: TurnTooLarge: " in refused.stderr
    assert stored == []
    assert client.info("s").last_seq == 2


def test_another_turn_under_a_known_id_is_named_by_its_line(turnmill: Callable[..., Ran]) -> None:
    lines = [
        json.dumps({"messages": [{"role": "user", "content": text}], "turn_id": "t"})
        for text in ("one", "other")
    ]

    ran = turnmill("push", "s", stdin="\n".join(lines))

    assert ran.exit_code == 1
    assert ran.stdout.split() == ["1"]
    assert "line 2: TurnConflict: " in ran.stderr


def test_bytes_that_are_no_text_are_a_bad_line(turnmill: Callable[..., Ran]) -> None:
    ran = turnmill("push", "s", stdin=b'{"role": "user", "content": "\xff\xfe"}\n')

    assert ran.exit_code == 1
    assert "line 1: InvalidTurn" in ran.stderr


def test_a_bad_session_name_is_an_error_and_not_a_traceback(turnmill: Callable[..., Ran]) -> None:
    ran = turnmill("push", "no spaces", stdin='{"role": "user", "content": "x"}')

    assert ran.exit_code == 2
    assert "InvalidName" in ran.stderr
    assert "Traceback" not in ran.stderr


# --- rules ----------------------------------------------------------------------------------------


def test_the_rules_of_a_session_are_listed(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    agent = client.manager("s")
    agent.instruct("Never email me.")
    agent.instruct("Always answer in German.")

    table = turnmill("rules", "s").stdout
    found = turnmill("rules", "s", "--json").json

    assert "Never email me." in table
    assert [(rule["id"], rule["text"]) for rule in found] == [
        ("1", "Never email me."),
        ("2", "Always answer in German."),
    ]


# --- parked ---------------------------------------------------------------------------------------


@pytest.fixture
def stuck(client: ContextClient, redis_client: redis.Redis, namespace: str) -> list[str]:
    """Two parked sessions, and one that is not."""
    sessions = RedisSessions(redis_client)
    for name in ("one", "two", "fine"):
        client.push(name, {"role": "user", "content": "private words"})
    for name in ("one", "two"):
        for _ in range(5):
            sessions.failed(SessionRef(Namespace(namespace), SessionId(name)), "KeyError")
    return ["one", "two"]


def checks(ran: Ran) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in ran.json["checks"]}


def test_parked_sessions_are_listed_with_their_failures(
    turnmill: Callable[..., Ran], stuck: list[str]
) -> None:
    table = turnmill("parked").stdout
    listed = turnmill("parked", "--json").json

    assert [each["session"] for each in listed] == stuck
    assert {each["error"] for each in listed} == {"KeyError"}
    assert "KeyError" in table
    assert "2 sessions" in table
    assert "fine" not in table
    assert "parked for" in turnmill("info", "one").stdout
    assert "5 compactions failed in a row" in turnmill("info", "one").stdout


def test_sessions_are_retried_by_name_or_all(
    turnmill: Callable[..., Ran], client: ContextClient, stuck: list[str]
) -> None:
    one = turnmill("retry", stuck[0], "fine")
    rest = turnmill("retry", "--all")

    assert "fine is not parked" in one.stderr
    assert "1 session will be compacted again" in one.stdout
    assert "1 session will be compacted again" in rest.stdout
    assert client.parked() == []


@pytest.mark.parametrize("words", [(), ("one", "--all")])
def test_retry_wants_names_or_all(turnmill: Callable[..., Ran], words: tuple[str, ...]) -> None:
    assert turnmill("retry", *words).exit_code == 2


def test_an_unknown_name_does_not_keep_the_others_waiting(
    turnmill: Callable[..., Ran], client: ContextClient, stuck: list[str]
) -> None:
    ran = turnmill("retry", "nobody", *stuck)

    assert ran.exit_code == 1
    assert "nobody" in ran.stderr
    assert "2 sessions will be compacted again" in ran.stdout
    assert client.parked() == []


def test_the_doctor_counts_parked_sessions(turnmill: Callable[..., Ran], stuck: list[str]) -> None:
    assert stuck
    found = checks(turnmill("doctor", "--json"))

    assert found["parked"]["status"] == "warning"
    assert found["parked"]["found"].startswith("2 sessions")
    assert "retry" in found["parked"]["advice"]


def test_the_state_of_each_session_is_told_and_can_be_asked_for(
    turnmill: Callable[..., Ran], client: ContextClient, redis_client: redis.Redis, stuck: list[str]
) -> None:
    client.open("full", Policy(max_tokens=1000))
    client.push("full", {"role": "user", "content": "words " * 2000})
    for name in ("fine", *stuck):
        keys = session_keys(client.namespace, SessionId(name))
        redis_client.zrem(keys.backlog, name)

    every = {row["session"]: row["state"] for row in turnmill("sessions", "--json").json}
    waiting = turnmill("sessions", "--waiting", "--json").json
    over = turnmill("sessions", "--over-soft", "-A", "--json").json

    assert every == {"full": every["full"], "fine": "ok", "one": "parked", "two": "parked"}
    assert every["full"].startswith("over-hard")
    assert {row["session"] for row in waiting} >= set(stuck)
    assert "fine" not in {row["session"] for row in waiting}
    assert [row["session"] for row in over if row["namespace"] == client.namespace] == ["full"]
    assert "no such sessions" in turnmill("sessions", "--over-soft", "-n", "nobody-here").stdout


def test_the_doctor_looks_everywhere_and_can_be_strict(
    turnmill: Callable[..., Ran], stuck: list[str], namespace: str
) -> None:
    words = ("doctor", "-n", "nobody-here", "--json")
    here, there = (turnmill(*words, *more).json["checks"] for more in ((), ("-A",)))
    strict = turnmill("doctor", "--json", "--strict")

    told = f"{len(stuck)} sessions of {namespace}"
    assert told not in {check["found"] for check in here}
    assert told in {check["found"] for check in there}
    assert (strict.exit_code, strict.json["ok"]) == (1, False)


@pytest.mark.parametrize(("refused", "status"), [(5, "warning"), (1, "ok")])
def test_the_doctor_warns_when_most_answers_of_a_model_are_refused(
    turnmill: Callable[..., Ran],
    client: ContextClient,
    redis_client: redis.Redis,
    refused: int,
    status: str,
) -> None:
    client.push("s", {"role": "user", "content": "x"})
    keys = session_keys(client.namespace, SessionId("s"))
    why = ["UnusableSummary: wrong-language", "CircuitOpen"]
    again = {"model": "m", "items": {"kept": 1, "asked again: refused": 1}}
    stood_in = [{"model": "extractive", "failed": why}] * (refused - 1)
    for record in [*stood_in, again, {"model": "m"}, {"model": "m"}]:
        redis_client.xadd(keys.compactions, {"record": json.dumps(record)})

    found = checks(turnmill("doctor", "--json"))["answers"]

    assert found["status"] == status
    assert found["found"].startswith(f"{refused} of {refused + 3} answers of models refused")
    assert ("wrong-language" in found["found"]) is (status == "warning")
    assert "CircuitOpen" not in found["found"], "no answer came"


# --- info tokens ----------------------------------------------------------------------------------

TOOL = {"name": "look", "description": "Looks around.", "input_schema": {"type": "object"}}


def test_tools_and_what_usage_taught_are_shown(
    client: ContextClient, redis_client: redis.Redis, turnmill: Callable[..., Ran]
) -> None:
    worker = Worker(redis_client, client.namespace)
    client.open("s", Policy(), "You are terse.", tools=[TOOL])
    client.push("s", {"role": "user", "content": "word " * 800})
    worker.pipeline.estimate(worker.ref("s"))
    counted = client.read("s").tokens

    client.push("s", {"role": "assistant", "content": "Yes."}, usage=round(counted * 1.25))
    worker.pipeline.estimate(worker.ref("s"))

    said, told = turnmill("info", "s").stdout, turnmill("info", "s", "--json").json
    assert f"tools {client.info('s').tools_tokens:,}" in said
    assert "times 1.25 as 1 call told, 0% too high at most" in " ".join(said.split())
    assert told["correction"] == {
        "ratio": pytest.approx(1.25, abs=0.001),
        "error": 0,
        "calls": 1,
    }
