"""Races that other frameworks had while they compacted, each named after its report."""

from __future__ import annotations

from tests.chaos.proxy import Trap
from tests.chaos.scene import FILLS, Scene
from tests.processes import wait_until
from turnmill import Context

__all__ = ["RACES"]


def openai_agents_python_4679_items_written_during_a_compaction(scene: Scene) -> None:
    """Turns pushed while the summary is made are kept, in order, behind it."""
    with scene.held("commit") as commit:
        scene.fill()
        scene.reach(commit)
        late = [scene.push()[0] for _ in range(5)]
    scene.committed()

    assert late == list(range(FILLS + 1, FILLS + 6))
    assert scene.read().last_seq == late[-1]


def openai_agents_python_4679_clear_during_a_compaction(scene: Scene) -> None:
    """A session cleared while its summary is made stays clear: the commit is refused."""
    with scene.held("commit") as commit:
        scene.fill()
        scene.reach(commit)
        assert scene.client.clear(scene.session) == FILLS
        version = scene.info.version
    wait_until(lambda: scene.client.info(scene.session).wait is None, what="the job given up")

    assert scene.info.version == version
    assert [message["role"] for message in scene.client.read(scene.session).messages] == ["system"]


def google_adk_python_7140_events_that_come_while_a_summary_is_made(scene: Scene) -> None:
    """What comes meanwhile is neither refused as stale nor hidden by the summary."""
    with scene.held("commit") as commit:
        scene.fill()
        scene.reach(commit)
        planned = scene.info.last_seq
        scene.push(4)
    scene.committed()
    context = scene.read()

    assert context.watermark <= planned
    scene.push(1)  # by a client that knows nothing of the commit


def microsoft_agent_framework_7744_the_summary_is_lost_its_exclusions_stay(
    scene: Scene,
) -> None:
    """Turns leave a context in the same step in which what stands for them comes in."""
    for nth in (1, 3):
        scene.broken("commit", "cut mid-reply", nth=nth)
    scene.world.front.set(Trap("XRANGE", "cut mid-reply", nth=4))
    for _ in range(3 * FILLS):
        scene.push(1)
        context = scene.read()
        stands_for = bool(context.summary or _receipts(context))
        assert stands_for or not context.watermark
    scene.committed(2)


def _receipts(context: Context) -> bool:
    """Whether a message says that turns were removed."""
    return any("removed" in str(message["content"]) for message in context.messages[1:3])


_OTHERS = ("openai", "google", "microsoft")
RACES = [race for name, race in list(globals().items()) if name.startswith(_OTHERS)]
