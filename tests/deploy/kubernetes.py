"""deploy/kubernetes as `kubectl apply -k` would see it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import pytest
import yaml

from tests.deploy.compose import REPOSITORY

OVERLAYS: Final = ("minimal", "production")
FOLDER: Final = REPOSITORY / "deploy" / "kubernetes"

Resource = dict[str, Any]


@cache
def rendered(overlay: str) -> tuple[Resource, ...]:
    """Everything of an overlay; skips where there is no kubectl."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl here")
    command = [kubectl, "kustomize", str(FOLDER / "overlays" / overlay)]
    made = subprocess.run(command, capture_output=True, check=True, text=True)
    return tuple(yaml.safe_load_all(made.stdout))


def of_kind(overlay: str, *kinds: str) -> dict[str, Resource]:
    """By name."""
    return {r["metadata"]["name"]: r for r in rendered(overlay) if r["kind"] in kinds}


def pods(overlay: str) -> Iterator[tuple[str, Resource]]:
    """The template of each deployment or stateful set, by its name."""
    for name, each in of_kind(overlay, "Deployment", "StatefulSet").items():
        yield name, each["spec"]["template"]


def container(template: Resource) -> Resource:
    """The only one of a pod."""
    [found] = template["spec"]["containers"]
    return dict(found)


def selects(selector: Resource, labels: dict[str, str]) -> bool:
    """Whether a selector is of a pod with these labels."""
    wanted = selector.get("matchLabels", {}).items()
    ways = selector.get("matchExpressions", [])
    assert all(way["operator"] == "In" for way in ways), "all that the manifests use"
    return wanted <= labels.items() and all(labels.get(w["key"]) in w["values"] for w in ways)


def settings(overlay: str) -> dict[str, str]:
    """The environment that every worker of it is given."""
    [found] = [r for r in rendered(overlay) if r["kind"] == "ConfigMap"]
    return dict(found["data"])
