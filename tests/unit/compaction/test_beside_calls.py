"""What a user says beside a hundred calls keeps its part of a summary's room."""

from __future__ import annotations

from tests.unit.reading.test_work import COUNT, Record, step
from turnmill_worker.summarizers.extractive import extract


def edit(at: int) -> list[Record]:
    return step(
        4 * at + 1,
        "edit",
        f"The file /srv/gateway/part{at}.ts has been updated.",
        path=f"/srv/gateway/part{at}.ts",
        old_str=f"const limit{at} = read('limit{at}')",
        new_str=f"const limit{at} = bounded('limit{at}', {at})",
    )


def test_a_user_who_changes_their_mind_among_many_edits_is_not_forgotten() -> None:
    said = [
        "The default goes down to 450 per minute, the cluster cannot take 600.",
        "A burst of 50 is too small, the dashboard fires 70 at page load, say 80.",
        "It has to be picked to release 4.17 by Ana, who does the patch on Friday.",
        "Leave the trust proxy line in, I shall commit that separately.",
    ]
    records = []
    for at in range(60):
        if at % 15 == 0:
            records.append((4 * at, {"role": "user", "content": said[at // 15]}))
        records += edit(at)

    text = extract(records, budget_tokens=400, count=COUNT)

    assert all(sentence in text for sentence in said)
    assert text.count("call") >= 3


def test_what_is_said_again_and_again_takes_no_room_of_what_was_done() -> None:
    records = []
    for at in range(60):
        asked = f"Please run the test suite number {at} again now."
        records.append((4 * at, {"role": "user", "content": asked}))
        records += edit(at)

    text = extract(records, budget_tokens=400, count=COUNT)

    assert text.count("user:") <= 2
    assert text.count("call") >= 6
