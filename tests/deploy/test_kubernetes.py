"""The manifests: valid, closed, and with the same commands as docker-compose.yml."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from cloudcoil.models.keda.v1alpha1 import ScaledObject

from tests.deploy.compose import REPOSITORY, load
from tests.deploy.kubernetes import (
    FOLDER,
    OVERLAYS,
    Resource,
    container,
    of_kind,
    pods,
    rendered,
    selects,
    settings,
)
from turnmill import Policy
from turnmill.contract.jobs import QUEUES
from turnmill_worker.app import app
from turnmill_worker.settings import Settings
from turnmill_worker.telemetry import GAUGES

VERSIONS = ("1.30", "1.37")
YAMLLINT = "{extends: default, rules: {document-start: disable, line-length: {max: 160}}}"

production = pytest.mark.parametrize("overlay", ["production"])


@pytest.fixture(params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_resource_is_valid_by_the_schemas(overlay: str) -> None:
    for resource in rendered(overlay):
        if resource["kind"] == "ScaledObject":
            made = ScaledObject.model_validate(resource).model_dump(by_alias=True, mode="json")
            assert contains(made, resource), "a field that KEDA does not know"
            continue
        for version in VERSIONS:
            kubernetes_validate.validate(resource, version, strict=True)


def contains(more: Any, less: Any) -> bool:
    """Whether all that is in one is in the other."""
    match less:
        case dict():
            return all(key in more and contains(more[key], each) for key, each in less.items())
        case list():
            return all(map(contains, more, less))
    return bool(more == less)


def test_the_files_are_clean_yaml(overlay: str) -> None:
    folders = [str(FOLDER / name) for name in ("base", "components", f"overlays/{overlay}")]

    checked = subprocess.run(
        [sys.executable, "-m", "yamllint", "--strict", "-d", YAMLLINT, *folders],
        capture_output=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout.decode()


def test_every_queue_has_a_deployment_with_the_command_of_compose(overlay: str) -> None:
    workers = load({}).workers()
    found = {n: container(pod)["command"] for n, pod in pods(overlay) if n in workers}

    assert tuple(found) == tuple(sorted(QUEUES))
    assert found == {name: list(workers[name].command) for name in found}


def test_pods_may_do_nothing_that_they_need_not(overlay: str) -> None:
    for name, pod in pods(overlay):
        spec, only = pod["spec"], container(pod)
        assert spec["automountServiceAccountToken"] is False, name
        assert spec["securityContext"]["runAsNonRoot"], name
        assert spec["securityContext"]["runAsUser"], name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert only["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name
        assert {"/tmp": "tmp"}.items() <= {  # noqa: S108 - of the container
            each["mountPath"]: each["name"] for each in only["volumeMounts"]
        }.items(), name
        assert "emptyDir" in {v["name"]: v for v in spec["volumes"]}["tmp"], name
        for kind in ("requests", "limits"):
            assert {"cpu", "memory"} <= only["resources"][kind].keys(), name
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= only.keys(), name


def test_a_pod_has_longer_to_stop_than_what_it_does_takes(overlay: str) -> None:
    soft_s = app.conf.worker_soft_shutdown_timeout
    grace_s = {name: pod["spec"]["terminationGracePeriodSeconds"] for name, pod in pods(overlay)}

    assert all(each > soft_s for each in grace_s.values())
    assert grace_s["summarize"] > Policy().model_timeout_s * 2 + soft_s, "a call, and once again"


def test_budgets_and_policies_are_of_pods_that_exist_and_of_all(overlay: str) -> None:
    labels = {name: pod["metadata"]["labels"] for name, pod in pods(overlay)}
    budgets, rules = (of_kind(overlay, k) for k in ("PodDisruptionBudget", "NetworkPolicy"))

    covered = {
        name: [pod for pod in labels if selects(each["spec"]["selector"], labels[pod])]
        for name, each in budgets.items()
    }
    assert covered == {name: [name] for name in labels if name != "redis"}
    assert all("maxUnavailable" in each["spec"] for each in budgets.values())
    closing = rules["nothing-but-names"]["spec"]
    assert all(selects(closing["podSelector"], each) for each in labels.values())
    assert (closing["policyTypes"], closing.get("ingress")) == (["Ingress", "Egress"], None)
    for name, each in rules.items():
        assert any(selects(each["spec"]["podSelector"], pod) for pod in labels.values()), name


def test_workers_read_settings_that_exist_and_secrets_that_are_files(overlay: str) -> None:
    script = (REPOSITORY / "deploy" / "secrets.sh").read_text()
    given = settings(overlay)
    known = {f"TURNMILL_{field}".upper() for field in Settings.model_fields}
    for name, pod in pods(overlay):
        volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
        mounted = {each["path"] for each in volumes["secrets"]["secret"]["items"]}
        assert all(re.search(rf"\b{each}\b", script) for each in mounted), name
        if name in QUEUES:
            paths = {Path(v) for k, v in given.items() if k.endswith("_FILE")}
            assert {path.name for path in paths} == mounted, name
    assert {key for key in given if key != "PROMETHEUS_URL"} <= known


def triggers(overlay: str) -> dict[str, list[Resource]]:
    found = of_kind(overlay, "ScaledObject")
    return {n: [t["metadata"] for t in each["spec"]["triggers"]] for n, each in found.items()}


@production
def test_somebody_always_sweeps_and_no_numbers_are_not_no_work(overlay: str) -> None:
    scaled = of_kind(overlay, "ScaledObject")
    assert sorted(scaled) == sorted(QUEUES)
    for name, each in scaled.items():
        spec = each["spec"]
        assert spec["scaleTargetRef"]["name"] == name
        assert spec["minReplicaCount"] == (1 if name == "archive" else 0), "it wakes the others"
        assert spec["fallback"]["replicas"] > 0
        assert "replicas" not in of_kind(overlay, "Deployment")[name]["spec"], "KEDA's to say"
        for trigger in triggers(overlay)[name]:
            assert trigger["ignoreNullValues"] == "false"
            assert trigger["serverAddress"] == settings(overlay)["PROMETHEUS_URL"]


WAITING = {
    "estimate": {"turnmill_backlog_age_seconds": 20.0},
    "compact": {'turnmill_sessions{state="due"}': 64.0},
    "summarize": {'turnmill_queue_depth{queue="summarize"}': 256.0},
    "archive": {"turnmill_archive_lag_seconds": 60.0},
}
"""What four replicas are right for."""


@production
def test_replicas_follow_what_waits_as_the_metrics_tell_it(overlay: str, tmp_path: Path) -> None:
    if not shutil.which("promtool"):
        pytest.skip("no promtool here")
    told = {each.prometheus for each in GAUGES}
    cases = []
    for queue, series in WAITING.items():
        first = triggers(overlay)[queue][0]
        assert set(re.findall(r"turnmill_\w+", first["query"])) <= told
        [(name, value)] = series.items()
        workers = [{"series": with_pod(name, at), "values": f"{value}x9"} for at in "ab"]
        sample = [{"labels": "{}", "value": 4 * float(first["threshold"])}]
        asked = {"expr": first["query"], "eval_time": "1m", "exp_samples": sample}
        cases.append({"interval": "30s", "input_series": workers, "promql_expr_test": [asked]})
    (tmp_path / "cases.yml").write_text(json.dumps({"tests": cases}))

    checked = subprocess.run(
        ["promtool", "test", "rules", str(tmp_path / "cases.yml")], capture_output=True, check=False
    )

    assert checked.returncode == 0, checked.stdout.decode()


def with_pod(series: str, pod: str) -> str:
    """Every worker tells the gauges of all."""
    name, _, labels = series.rstrip("}").partition("{")
    return f'{name}{{{labels}{"," if labels else ""}instance="{pod}"}}'
