"""The Job of a campaign, before a real API server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hunting.job import job
from tests.support.cluster import Cluster, NoCluster


def test_a_real_api_server_takes_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each field of it, with a volume claim and without: unknown ones are refused."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    try:
        cluster = Cluster(tmp_path / "cluster")
    except NoCluster as error:
        pytest.skip(f"NO REAL API SERVER, so this is NOT TESTED: {error}")
    try:
        from kubernetes import client

        batch: Any = client.BatchV1Api(cluster.admin.api_client)
        for name, claim in (("plain", ""), ("kept", "hunt")):
            manifest = job(500, "example.com/pinproof:1", ["--depth", "4"], name=name, claim=claim)
            made = batch.create_namespaced_job("default", manifest, field_validation="Strict")
            assert made.spec.completion_mode == "Indexed"
            assert made.spec.backoff_limit_per_index == 2
    finally:
        cluster.close()
