"""What has the shape of a secret does not leave; what has not, stays."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from tests.effort import assert_linear
from turnmill_worker.errors import SummarizerMisconfigured
from turnmill_worker.summarizers import redaction
from turnmill_worker.summarizers.redaction import load_redactor, redact

SECRETS = {
    "sk-proj-abcdefghijklmnopqrstuvwx": "key",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789": "key",
    "AKIAIOSFODNN7EXAMPLE": "key",
    "xoxb-123456789012-abcdefghijkl": "key",
    "AIzaSyA-abcdefghijklmnopqrstuvwxyz01234": "key",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl": "token",
    "anna.lind+shop@mail.example.co.uk": "email",
    "jürgen@müller.example": "email",
    "4111111111111111": "card",
    "5500-0000-0000-0004": "card",
    "3782 822463 10005": "card",
}


@pytest.mark.parametrize(("secret", "kind"), SECRETS.items())
def test_a_secret_is_replaced_by_its_kind(secret: str, kind: str) -> None:
    made = redact(f"It is ({secret}), remember.")

    assert made == f"It is ([redacted {kind}]), remember."


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("Authorization: Bearer abc.def-123456", "Authorization: Bearer [redacted token]"),
        ('{"password": "hunter2!x"}', '{"password": "[redacted secret]"}'),
        ("export API_KEY=abcdef123456", "export API_KEY=[redacted secret]"),
        ("client_secret: 'xyzzy-plugh'", "client_secret: '[redacted secret]'"),
        ("aws_secret_access_key=wJalrXUt/bPx", "aws_secret_access_key=[redacted secret]"),
        ("api_key=sk-proj-abcdefghijklmnopqrst", "api_key=[redacted key]"),
        ('password = "it\'s so long"', 'password = "[redacted secret]"'),
        ("GITHUB_TOKEN=abcdef123456", "GITHUB_TOKEN=[redacted secret]"),
        ('{"password": "to be or not"}', '{"password": "[redacted secret]"}'),
        (r"{\"password\": \"hunter\"}", r"{\"password\": \"[redacted secret]\"}"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted secret]"),
        ("postgres://u:p4ss@host/db", "postgres://[redacted secret]@host/db"),
    ],
)
def test_what_is_labelled_a_secret_goes_and_its_label_stays(text: str, made: str) -> None:
    assert redact(text) == made


def test_a_private_key_goes_whole() -> None:
    pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----"

    assert redact(f"a {pem} b") == "a [redacted private key] b"


@pytest.mark.parametrize(
    "text",
    [
        "order #W7710442, item 8384507844, user anna_lind_4821",
        "4111111111111112 fails the check digit",
        "0000000000000000",
        "2026-11-21 04:05:06.123456",
        "password reset was asked for",
        "the bearer of this letter",
        "max_tokens: 128000, tokens=4096000",
        "basic understanding of it",
        "https://host:8080/path?a=b@c",
        "我的邮箱",
        "skip-this-directory-please",
        "1234567890123456789012345",
    ],
)
def test_what_only_looks_alike_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "unit",
    ["a", "1", "sk-", "a@", "a.", "eyJ", "password=", "-----BEGIN ", "://a:", "a_", "token_"],
)
@pytest.mark.slow
def test_hostile_text_takes_linear_time(unit: str) -> None:
    assert_linear(lambda size: redact(unit * (size // len(unit))), size=50_000)


def offering(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    group = redaction.GROUP
    found = EntryPoints(EntryPoint(name, value, group) for name, value in values.items())
    monkeypatch.setattr(redaction, "entry_points", found.select)


def test_redaction_is_off_by_default() -> None:
    assert load_redactor("") is None
    assert load_redactor("built-in") is redact


def test_a_package_can_offer_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    offering(monkeypatch, shout="builtins:ascii")
    redactor = load_redactor("shout")

    assert redactor is not None
    assert redactor("é") == "'\\xe9'"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("typo", "no redactor 'typo': there are built-in, gone, number"),
        ("gone", "redactor 'gone': ModuleNotFoundError"),
        ("number", "redactor 'number': a float, which cannot be called"),
    ],
)
def test_a_redactor_that_is_not_there_stops_everything(
    monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    offering(monkeypatch, gone="no_such_module_here:f", number="math:pi")

    with pytest.raises(SummarizerMisconfigured, match=reason):
        load_redactor(name)


@pytest.mark.parametrize(
    ("value", "problem"), [("math:sqrt", "TypeError"), ("builtins:len", "gave back a int")]
)
def test_a_redactor_that_fails_tells_nothing(
    monkeypatch: pytest.MonkeyPatch, value: str, problem: str
) -> None:
    offering(monkeypatch, bad=value)
    redactor = load_redactor("bad")
    assert redactor is not None

    with pytest.raises(SummarizerMisconfigured, match=problem) as caught:
        redactor("my secret")

    assert "my secret" not in str(caught.value)
    assert caught.value.__context__ is None
