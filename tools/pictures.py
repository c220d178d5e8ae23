"""Take the README's pictures: Flower's list of jobs, and the page of `turnmill visualize`.

Run by `make pictures`. It needs Chromium, and Pillow to make the files small.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from PIL import Image

from turnmill import ContextClient, Policy
from turnmill_cli.demo import ScriptedAgent
from turnmill_cli.local.processes import local_pipeline
from turnmill_cli.visualize import page

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
AGENTS, STEPS, PAUSE_S = 4, 100, 0.4
MOST_BYTES = 150_000
COLOURS = 64
EVENTS_S = 5.0
"""Workers send what Flower shows a moment later."""


def main() -> None:
    """Run some agents, and take both pictures."""
    PICTURES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        local_pipeline(workers=1, flower=True) as running,
        ContextClient(running.redis_url, namespace="shop") as client,
    ):
        names = work(client)
        time.sleep(EVENTS_S)
        shoot(f"{running.flower_url}/tasks", "flower", size=(1500, 640), folder=folder)
        found = client.trajectory(names[0])
        context = tuple(client.read(names[0]).messages)
        html = Path(folder) / "session.html"
        html.write_text(page(found.model_copy(update={"context": context})))
        shoot(html.as_uri(), "visualize", size=(1100, 900), folder=folder)


def work(client: ContextClient) -> list[str]:
    """Let the demo's agents work, with pauses that workers need to be ahead of them."""
    agents = [ScriptedAgent(index, steps=STEPS) for index in range(1, AGENTS + 1)]
    for agent in agents:
        client.open(agent.name, Policy(max_tokens=12_000), agent.system_prompt)
    for step in range(STEPS):
        for agent in agents:
            if (message := agent.next(client.read(agent.name) if step else None)) is not None:
                client.push(agent.name, message)
        time.sleep(PAUSE_S)
    return [agent.name for agent in agents]


def shoot(url: str, name: str, *, size: tuple[int, int], folder: str) -> None:
    """Write a picture of the page as a PNG with few colours."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome") or "chromium-browser"
    raw = Path(folder) / f"{name}.png"
    command = [
        *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *(f"--user-data-dir={folder}/profile", f"--window-size={size[0]},{size[1]}"),
        *("--virtual-time-budget=8000", f"--screenshot={raw}", url),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    file = PICTURES / f"{name}.png"
    with Image.open(raw) as picture:
        picture.convert("RGB").quantize(COLOURS).save(file, optimize=True)
    taken = file.stat().st_size
    print(f"{file.name}: {taken:,} bytes")
    if taken > MOST_BYTES:
        raise SystemExit(f"{file.name} is larger than {MOST_BYTES:,} bytes")


if __name__ == "__main__":
    main()
