"""The races that Mastra documents for its observational memory, in turnmill's terms.

Each is named after an entry of that document's list of known problems (P1 to P7, H1 to H8, F1).
There a chunk of observations is what a count or a summary is here, a generation is a version, and
a cursor is a watermark. Where a race cannot occur by design, its scenario does what would show it.
"""

from __future__ import annotations

import time

from tests.chaos.proxy import Trap
from tests.chaos.scene import FILLS, Scene
from tests.chaos.workers import LEASE_S
from tests.processes import wait_until
from turnmill import Policy
from turnmill.contract import jobs
from turnmill_worker.tokens import count_message, counter_for

__all__ = ["RACES"]

SOME = 6
"""Turns that make nothing due."""


def p1_a_rollover_strands_what_is_buffered(scene: Scene) -> None:
    """Turns that were pushed and counted during a compaction are all in the next version's tail."""
    with scene.held("commit") as commit:
        scene.fill()
        scene.reach(commit)
        late = scene.push(6)
        scene.hint(jobs.ESTIMATE)
        wait_until(lambda: scene.info.counted_seq == late[-1], what="late turns counted")
    scene.committed()

    assert scene.info.watermark < late[0]
    assert scene.read().last_seq == late[-1]


def p2_a_late_write_to_the_new_head_skips_the_cursor(scene: Scene) -> None:
    """A commit that comes after its lease, when another worker has committed, is refused."""
    with scene.held("commit") as zombie:
        scene.fill()
        scene.reach(zombie)
        time.sleep(LEASE_S)
        scene.push(5)
        scene.hint()
        scene.committed(1)
        before = scene.info
    time.sleep(0.5)

    assert scene.info.watermark >= before.watermark
    assert scene.info.version >= before.version


def p3_a_reflection_retires_the_generation_a_write_targets(scene: Scene) -> None:
    """A compaction under an old policy is not committed once the policy has changed."""
    with scene.held("commit") as commit:
        scene.fill()
        scene.reach(commit)
        scene.client.open(scene.session, Policy(max_tokens=1_900, quality_threshold=0.0))
    scene.committed()

    assert scene.info.limits.hard == 1_900


def p4_an_activation_commits_to_a_retired_generation(scene: Scene) -> None:
    """A read that a commit interrupts shows the turns or their summary, never neither."""
    with scene.held("commit") as commit:
        scene.fill()
        scene.reach(commit)
        torn = scene.world.front.set(Trap("XRANGE", "call", call=lambda: _let(commit, scene)))
        context = scene.read()
    scene.committed()

    assert torn.sprung.is_set()
    assert context.version == 1


def _let(commit: Trap, scene: Scene) -> None:
    commit.released.set()
    with scene.redis() as plain:
        wait_until(lambda: plain.hget(scene.keys.meta, "version") == b"1", what="committed")


def p5_the_swap_drops_what_is_appended_meanwhile(scene: Scene) -> None:
    """What leaves the log while the archive stores what left before is not trimmed with it."""
    with scene.held("drained") as drained:
        scene.fill()
        scene.reach(drained)
        scene.push(FILLS)
        scene.committed(2)
    scene.archived()


def p6_a_reflection_uses_a_stale_snapshot(scene: Scene) -> None:
    """A summary that an agent asks for meets one of the background: neither covers the other."""
    with scene.held("commit") as commit:
        scene.fill()
        scene.reach(commit)
        scene.client.summarize(scene.session, wait=False)
        time.sleep(0.3)
    scene.committed()


def p7_processes_do_not_coordinate(scene: Scene) -> None:
    """Hints for one session, many times over and to all workers, make each version once."""
    scene.fill()
    for _ in range(5):
        scene.hint()
    scene.committed()
    with scene.redis() as plain:
        records = plain.xlen(scene.keys.compactions)

    assert records == scene.info.version == scene.info.compactions


def h1_a_retried_append_is_added_again(scene: Scene) -> None:
    """A turn pushed again is a no-op, without an answer, or long after it was archived."""
    reset = scene.world.front.set(Trap("push", "cut after", nth=3))
    scene.fill()
    assert reset.sprung.is_set()
    scene.committed()
    scene.archived()

    assert scene.push_again(*scene.turns[:3]) == [1, 2, 3]
    assert scene.info.last_seq == FILLS


def h2_a_commit_overwrites_a_concurrent_one(scene: Scene) -> None:
    """A commit whose answer is lost was made once, and is not made again."""
    lost = scene.broken("commit", "cut after")
    scene.fill()
    scene.reach(lost)
    scene.committed()
    time.sleep(LEASE_S)
    with scene.redis() as plain:
        records = plain.xlen(scene.keys.compactions)

    assert records == scene.info.version


def h3_the_cursor_moves_before_the_commit(scene: Scene) -> None:
    """A job that ends right before its commit has changed nothing, and is done again."""
    cut = [scene.broken("commit", "cut before") for _ in range(4)]  # a try and its repetitions
    scene.fill()
    scene.reach(cut[0])
    scene.committed()


def h4_a_stale_count_moves_the_cursor_to_now(scene: Scene) -> None:
    """Jobs for a session where nothing is to be done leave it as it is."""
    scene.push(3)
    before = scene.info
    for _ in range(3):
        scene.hint()
    time.sleep(1.0)

    assert (scene.info.version, scene.info.watermark) == (before.version, before.watermark)


def h5_a_marker_lands_on_what_was_not_observed(scene: Scene) -> None:
    """A turn pushed during an estimate stays uncounted until it is counted itself."""
    with scene.held("count") as count:
        scene.push(SOME)
        scene.hint(jobs.ESTIMATE)
        scene.reach(count)
        [late] = scene.push(1)
        time.sleep(0.1)
    scene.hint(jobs.ESTIMATE)
    wait_until(lambda: scene.info.counted_seq == late, what="late turn counted")
    _assert_counted(scene)


def h6_what_was_observed_is_observed_again(scene: Scene) -> None:
    """An estimate whose answer is lost, and that is hinted again, counts no turn twice."""
    lost = scene.broken("count", "cut after")
    scene.push(SOME)
    scene.hint(jobs.ESTIMATE)
    scene.reach(lost)
    scene.hint(jobs.ESTIMATE, jobs.ESTIMATE)
    wait_until(lambda: scene.info.counted_seq == SOME, what="counted")
    _assert_counted(scene)


def h7_a_part_added_later_is_never_observed(scene: Scene) -> None:
    """A turn is never changed: another body under its id is not stored, and none is lost."""
    scene.push(3)
    again = scene.client.push(
        scene.session, {"role": "user", "content": "more"}, turn_id=scene.turns[1]
    )

    assert (again.seq, again.duplicate) == (2, True)


def h8_overlapping_calls_observe_the_same(scene: Scene) -> None:
    """Two estimates of one session at once count each turn once."""
    with scene.held("count") as first:
        scene.push(SOME)
        scene.hint(jobs.ESTIMATE)
        scene.reach(first)
        scene.hint(jobs.ESTIMATE, jobs.ESTIMATE)
        time.sleep(0.5)
    wait_until(lambda: scene.info.counted_seq == SOME, what="counted")
    time.sleep(0.3)
    _assert_counted(scene)


def f1_the_host_s_clock_is_off(scene: Scene) -> None:
    """An agent whose clock is a day ahead, and one a day late, change no order and lose nothing."""
    world, sessions = scene.world, {scene.session: scene.style}
    for name, ahead_s in (("early", 86_400.0), ("late", -86_400.0)):
        world.agent(f"{name}-{scene.session}", sessions, turns=40, clock_ahead_s=ahead_s)
    world.wait_for_agents()
    scene.hint()
    scene.committed()


def _assert_counted(scene: Scene) -> None:
    """The tokens of the tail are those of its messages."""
    context = scene.read()
    counter = counter_for("o200k_base")
    tokens = 3 + sum(count_message(counter, message) for message in context.messages)

    assert context.exact
    assert context.tokens == tokens


RACES = [race for name, race in list(globals().items()) if name[0] in "phf" and name[1:2].isdigit()]
