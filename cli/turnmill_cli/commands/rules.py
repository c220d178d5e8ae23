"""``turnmill rules``: what the user laid down for the rest of a session."""

from __future__ import annotations

from turnmill.contract.render import changed_in
from turnmill_cli.options import Connection, JsonFlag, SessionName
from turnmill_cli.output import (
    clean,
    number_column,
    plain_table,
    print_json,
    print_line,
    print_table,
)

__all__ = ["rules"]


def rules(session: SessionName, connection: Connection, as_json: JsonFlag = False) -> None:
    """List the user's rules in force, oldest first, word for word.

    Workers find them when they cover a turn; marked ones are there at once.
    """
    with connection.client() as client:
        found = client.rules(session)
    if as_json:
        print_json([{"id": rule.id, **rule.model_dump(mode="json")} for rule in found])
    elif not found:
        print_line("no rules")
    else:
        table = plain_table("id", number_column("turn"), "rule")
        for rule in found:
            text = clean(rule.text + changed_in(rule))
            table.add_row(rule.id, f"{rule.seq:,}", text)
        print_table(table)
