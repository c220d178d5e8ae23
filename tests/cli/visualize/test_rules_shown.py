"""What the user laid down and asked for, on the page."""

from __future__ import annotations

from tests.cli.visualize.test_page import compacted, words
from turnmill.contract.context import OpenRequest
from turnmill.contract.names import Seq
from turnmill.contract.rules import Rule
from turnmill_cli.visualize import page


def test_rules_and_open_requests_are_listed_and_escaped() -> None:
    rule = Rule(seq=Seq(12), text="never <by> plane", revised=Seq(20))
    request = OpenRequest(seq=Seq(3), text="book a table")

    html = page(compacted(rules=(rule,), requests=(request,)))

    told = words(html)
    assert "12: never &lt;by&gt; plane (changed in turn 20)" in told
    assert "<by>" not in html
    assert "Turn 3: book a table" in told
    assert "1 rule of the user: word for word" in told
