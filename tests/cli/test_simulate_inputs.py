"""What ``simulate`` and ``draw`` are given: pods, manifests, settings; and what is none."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import topologies
from conformance import strategies
from conformance.discovered import topology_of
from conformance.kubelets.configuration import configuration
from conformance.kubelets.manifests import manifest
from conformance.kubelets.releases import Minor
from conformance.subject import SubjectUsageError
from hil.pods import Image
from hil.pods import manifest as manifest_on_a_node
from pinproof.configuration_fields import FIELDS
from pinproof.documents import parsed
from pinproof.files import documents
from pinproof.inputs import pods_given
from pinproof.manifests import BadManifest, pods_of
from pinproof.node_archive import bare
from pinproof.settings import Given, settings_of
from reference import CPUSet
from reference.steps import Kind, KubeletConfig, Pod, PodResources
from tests.support import lacking

TOPOLOGY: Final = topology_of(topologies.machine("1s-1n-4c-smt2"), release="1.36")

PODS: Final = """
apiVersion: v1
kind: List
items:
- kind: Pod
  metadata: {name: db, namespace: prod, uid: uid-1, creationTimestamp: "2026-01-02T00:00:00Z"}
  spec:
    nodeName: node7
    initContainers:
    - name: prepare
      resources: {limits: {cpu: 2, memory: 1Gi}}
    - name: proxy
      restartPolicy: Always
      resources: {requests: {cpu: "1", memory: 1Gi}, limits: {cpu: "1", memory: 1Gi}}
    containers:
    - name: main
      image: example.com/db
      resources: {requests: {cpu: 1.5, memory: 1Gi}, limits: {cpu: "2", memory: 1Gi}}
  status: {phase: Running, startTime: 2026-01-02T00:00:05Z}
- metadata:
    name: static-web-node7
    uid: of-the-mirror
    annotations: {kubernetes.io/config.mirror: of-the-static-pod}
    creationTimestamp: "2026-01-01T00:00:00Z"
  spec:
    resources: {limits: {cpu: 2}}
    containers: [{name: c}]
- kind: Pod
  metadata: {name: once, uid: uid-3}
  spec: {containers: [{name: c}]}
  status: {phase: Succeeded}
"""


def pods_in(text: str, *, oldest_first: bool = False) -> tuple[Pod, ...]:
    return pods_of(parsed(text), oldest_first=oldest_first).pods


def refused(read: Callable[[], object]) -> str:
    """What is said of it, in one line."""
    with pytest.raises(SubjectUsageError) as caught:
        read()
    assert str(caught.value).isprintable()
    return str(caught.value)


def written(folder: Path, text: str) -> Path:
    """A file of this text."""
    path = folder / "given.yaml"
    path.write_text(text)
    return path


def one_pod(name: str, node: str = "", **metadata: str) -> dict[str, Any]:
    spec = {"nodeName": node, "containers": [{"name": "c"}]}
    return {"kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def deployment(kind: str = "Deployment", **metadata: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"template": {"spec": {"containers": [{"name": "c"}]}}}
    if kind == "CronJob":
        spec = {"jobTemplate": {"spec": spec}}
    return {"kind": kind, "metadata": {"name": "api", **metadata}, "spec": spec}


def test_a_list_as_kubectl_prints_it() -> None:
    """Sidecars, pod-level resources, the uid that the kubelet keeps of a static pod; pods that have
    ended are passed over."""
    db, web = pods_in(PODS)
    assert [(one.name, one.kind) for one in db.containers] == [
        ("prepare", Kind.INIT), ("proxy", Kind.SIDECAR), ("main", Kind.APP)
    ]  # fmt: skip
    assert (db.uid, web.uid) == ("uid-1", "of-the-static-pod")
    prepare, _, main = db.containers
    assert (prepare.cpu_request, prepare.cpu_limit, prepare.memory_limit) == (None, "2", "1Gi")
    assert (main.cpu_request, main.cpu_limit) == ("1.5", "2")
    assert web.resources == PodResources(cpu_limit="2")
    assert pods_of(parsed(PODS)).notes == ("ignored, because they have ended: pods once",)


@pytest.mark.parametrize(
    ("pod", "critical"),
    [
        ("spec: {priorityClassName: system-cluster-critical, containers: [{name: c}]}", True),
        ("spec: {priorityClassName: high, priority: 1000000000, containers: [{name: c}]}", False),
        ("spec: {priority: 2000000000, containers: [{name: c}]}", True),
        ("spec: {priority: much, containers: [{name: c}]}", False),
        ("spec: {containers: [{name: c}]}", False),
    ],
)
def test_a_priority_makes_a_pod_critical(pod: str, critical: bool) -> None:
    (found,) = pods_in(f"{{kind: Pod, metadata: {{name: a}}, {pod}}}")
    assert found.critical is critical


def test_a_static_pod_is_critical() -> None:
    critical = [pod.name for pod in pods_in(PODS) if pod.critical]
    assert critical == ["static-web-node7"]


def test_the_oldest_first() -> None:
    """By startTime, or else creationTimestamp; quoted or not."""
    assert [pod.name for pod in pods_in(PODS, oldest_first=True)] == ["static-web-node7", "db"]
    with pytest.raises(BadManifest, match="pod api: neither startTime nor creationTimestamp"):
        pods_of([deployment()], oldest_first=True)


@pytest.mark.parametrize(
    "kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"]
)
def test_a_workload_counts_as_one_pod(kind: str) -> None:
    service = {"kind": "Service", "metadata": {"name": "api"}}
    found = pods_of([deployment(kind), service])
    assert [pod.name for pod in found.pods] == ["api"]
    assert found.notes == (
        f"counted as one pod each: {kind} api",
        "ignored, because they are not pods: Service api",
    )


def test_pods_of_one_name_in_two_namespaces() -> None:
    first, second = pods_of([deployment(), deployment(namespace="prod")]).pods
    assert (first.name, second.name) == ("default:api", "prod:api")
    assert first.uid != second.uid


every_pod = strategies.pods(names=st.just("p")) | strategies.pod_level_pods(names=st.just("p"))


@given(every_pod)
def test_what_the_project_writes_it_reads(pod: Pod) -> None:
    """The manifests that a kubelet and a node are given, and the list that an API server gives."""
    assert pods_in(json.dumps(manifest(pod))) == (pod,)
    listed = {"kind": "PodList", "items": [manifest(pod)]}
    assert pods_in(json.dumps(listed, indent=1)) == (pod,)
    (read,) = pods_in(json.dumps(manifest_on_a_node(pod, Image())))
    assert (read.containers, read.resources) == (pod.containers, pod.resources)


POD = "{kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, resources: %s}]}}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it contains no pod"),
        ("- 1", "document 1: not a mapping"),
        ("metadata: {}", "document 1: not a Kubernetes object: it has no kind"),
        ("kind: ConfigMap\nmetadata: {name: a}", "no pod; ignored, because they are not pods"),
        ("kind: Pod", "document 1: metadata: missing"),
        ("kind: Pod\nmetadata: {name: p}", "document 1: pod p: spec: missing"),
        ("kind: Pod\nmetadata: {name: p}\nspec: {}", "document 1: pod p: a pod needs an app cont"),
        ("kind: Pod\nmetadata: {name: 'a b'}", "document 1: metadata: name: not allowed: 'a b'"),
        ('{"kind": "Pod", "metadata": {"name": "\\ud800"}}', r"name: not allowed: '\ud800'"),
        ("kind: Pod\nmetadata: {name: [1]}", "document 1: metadata: name: not allowed: [1]"),
        (POD % "1", "pod p: container c: resources: not a mapping"),
        (POD % "{limits: 1}", "pod p: container c: resources: limits: not a mapping"),
        (POD % "{limits: {cpu: [1]}}", "resources: limits: cpu: not a quantity: [1]"),
        (POD % "{limits: {cpu: true}}", "resources: limits: cpu: not a quantity: True"),
        (POD % "{limits: {cpu: 2x}}", "pod p: container c: quantities must match"),
        (POD % "{limits: {cpu: 1}, requests: {cpu: 2}}", "container c: request 2 is above limit 1"),
        (POD % "{limits: {cpu: -1}}", "pod p: container c: a negative quantity"),
        ("kind: List\nitems: 3", "document 1: items: not a list"),
        ("kind: List\nitems: [3]", "document 1: item 1: not a mapping"),
        ("kind: List\nitems: [{kind: Pod}]", "document 1: item 1: metadata: missing"),
        ("kind: Deployment\nmetadata: {name: a}\nspec: {}", "document 1: template: missing"),
    ],
)
def test_a_manifest_that_is_none_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    line = refused(lambda: pods_given(str(path)))
    assert line.startswith(f"{path}: ")
    assert said in line


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([deployment(), deployment()], "two pods are called default/api"),
        (
            [one_pod("a", uid="uid-1"), one_pod("b", uid="uid-1")],
            "pod b: another one has its uid uid-1",
        ),
        (
            [one_pod("a", "of-a"), one_pod("b", "of-b")],
            r"pods of 2 nodes .*--field-selector spec.nodeName=NAME",
        ),
    ],
    ids=["of one name", "of one uid", "of two nodes"],
)
def test_pods_that_no_node_has_together_are_refused(items: list[Any], said: str) -> None:
    with pytest.raises(BadManifest, match=said):
        pods_of(items)


# -- --pods ------------------------------------------------------------------------------------


def test_cpu_requests_as_pods() -> None:
    found = pods_given("4, 2,1.5,500m,1+1")
    assert [[one.cpu_limit for one in pod.containers] for pod in found.pods] == [
        ["4"], ["2"], ["1.5"], ["500m"], ["1", "1"]
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["2 1.5", "2,x", "", ",", "nothing.yaml", "-1", "2+", "m"])
def test_what_are_no_pods_says_what_is_taken(text: str) -> None:
    assert refused(lambda: pods_given(text)) == (
        f"--pods {text!r}: it is CPU requests such as 4,2,1.5,1+1, a file of manifests, or - for "
        "manifests on stdin; no such file"
    )


def test_manifests_on_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PODS.encode())))
    assert [pod.name for pod in pods_given("-").pods] == ["db", "static-web-node7"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    assert refused(lambda: pods_given("-")).startswith("stdin: not UTF-8: byte 0")


# -- bounds ------------------------------------------------------------------------------------

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]\n" for at in range(1, 12)
)
MERGES = "a0: &a0 {x: 1, y: 2}\n" + "".join(
    f"a{at}: &a{at} {{<<: [{', '.join([f'*a{at - 1}'] * 9)}]}}\n" for at in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LAUGHS, "more than 400000 values, aliases counted"),
        ("a: [" + "x, " * 450_000 + "]", "more than 400000 values, aliases counted"),
        (MERGES, "more than 400000 values, aliases counted"),
        ("a: &a [*a]", "an alias of a value that contains it"),
        ("[" * 100_000, "nested too deeply"),
        ("- " * 100_000, "nested too deeply"),
        ("{a: " * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("a: *b", "undefined alias"),
        ("a: [1", "line 2, column 1: did not find expected ',' or ']'"),
        ('{"a": 1,, }', "line 1, column 9: "),
        ("a: " + "9" * 5000, "Exceeds the limit"),
        ("a: !!python/object/apply:os.system [true]", "could not determine a constructor"),
        ("a: \x07", "control characters are not allowed"),
        ("a: 1\n" * (1 << 20), "more than 4 MiB of YAML; as JSON (-o json)"),
    ],
)
def test_small_files_that_grow_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    begin = time.process_time()
    assert said in refused(lambda: documents(path))
    assert time.process_time() - begin < 10


def test_large_files_are_refused_before_they_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, "")
    os.truncate(path, 5 << 30)
    assert "larger than 32 MiB" in refused(lambda: documents(path))


def test_too_many_pods(tmp_path: Path) -> None:
    """An alias of a pod makes many of them."""
    pod = "&p {kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}"
    path = written(tmp_path, f"kind: List\nitems: [{pod}{', *p' * 500}]")
    for text in (str(path), ",".join(["1"] * 501)):
        with pytest.raises(SubjectUsageError, match="more than 500 pods"):
            pods_given(text)


def test_a_pipe_without_a_writer_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "it contains no pod" in refused(lambda: pods_given(str(tmp_path / "pipe")))


def test_a_time_stays_text(tmp_path: Path) -> None:
    """YAML 1.1 would make a date of it, and an error of one that cannot be."""
    path = written(tmp_path, "a: 2026-13-45\n---\n---\nb: 2026-01-01T00:00:00Z\n")
    assert documents(path) == [{"a": "2026-13-45"}, {"b": "2026-01-01T00:00:00Z"}]


# -- settings ----------------------------------------------------------------------------------


def settings(given: Given, release: str = "1.36") -> KubeletConfig:
    return settings_of(given, TOPOLOGY, release=release).config


def test_the_options_are_settings() -> None:
    found = settings(
        Given(
            policy="static",
            policy_option=["full-pcpus-only=true", "align-by-socket=false"],
            topology_manager_policy="restricted",
            topology_manager_scope="pod",
            topology_manager_policy_option=["max-allowable-numa-nodes=9"],
            feature_gate=["CPUManagerPolicyAlphaOptions=true"],
            kube_reserved="cpu=500m,memory=1Gi",
            system_reserved="cpu=1",
        )
    )
    assert found == KubeletConfig(
        "static",
        system_reserved="1",
        kube_reserved="500m",
        policy_options={"full-pcpus-only": "true", "align-by-socket": "false"},
        feature_gates={"CPUManagerPolicyAlphaOptions": True},
        topology_manager_policy="restricted",
        topology_manager_scope="pod",
        topology_manager_policy_options={"max-allowable-numa-nodes": "9"},
    )


def test_without_a_reservation_the_first_core_is_reserved() -> None:
    assert settings(Given()).reserved_system_cpus == CPUSet([0, 4])
    assert settings(Given(reserved="1,2")).reserved_system_cpus == CPUSet([1, 2])
    assert settings(Given(kube_reserved="cpu=1")).reserved_system_cpus is None
    assert settings(Given(policy="none")).reserved_system_cpus is None
    assert settings(Given(), release="1.16").system_reserved == "2"


@given(strategies.kubelet_configs(release="1.36"))
def test_a_configuration_that_the_project_writes_is_read(
    tmp_path_factory: pytest.TempPathFactory, config: KubeletConfig
) -> None:
    path = tmp_path_factory.mktemp("config") / "kubelet.yaml"
    path.write_text(json.dumps(configuration(Minor(1, 36), config, user_namespace=False)))
    assert settings(Given(config=path)) == config


FILE = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true", align-by-socket: "false"}
reservedSystemCPUs: "0,4"
kubeReserved: {cpu: 500m}
featureGates: {RotateKubeletServerCertificate: true, CPUManager: true, TopologyManager: true}
memoryManagerPolicy: Static
evictionHard: {memory.available: 100Mi}
"""


def test_options_override_the_file(tmp_path: Path) -> None:
    """Each by its name; what the model does not know is named, and passed over."""
    path = written(tmp_path, FILE)
    given = Given(config=path, policy_option=["full-pcpus-only=false"], reserved="1")
    found = settings_of(given, TOPOLOGY, release="1.26")
    assert found.config == KubeletConfig(
        "static",
        CPUSet([1]),
        kube_reserved="500m",
        policy_options={"full-pcpus-only": "false", "align-by-socket": "false"},
        feature_gates={"TopologyManager": True},
    )
    assert found.notes == (
        "feature gates ignored, unknown to the model: RotateKubeletServerCertificate",
        "what the Memory Manager reserves is not modelled: only CPUs decide the NUMA nodes here",
    )


def test_what_a_kubelet_says_of_its_configuration(tmp_path: Path) -> None:
    """``kubectl get --raw /api/v1/nodes/NAME/proxy/configz``: without a kind."""
    text = '{"kubeletconfig": {"cpuManagerPolicy": "static", "kubeReserved": null}}'
    path = written(tmp_path, text)
    assert settings(Given(config=path)) == KubeletConfig("static")


KIND = "kind: KubeletConfiguration\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Pod", "kind Pod: it must be a KubeletConfiguration"),
        ("cpuManagerPolicy: static", "no kind: it must be a KubeletConfiguration"),
        (f"{KIND}---\n{KIND}", "it must hold one KubeletConfiguration"),
        ("- 1", "it must hold one KubeletConfiguration"),
        ("", "it must hold one KubeletConfiguration"),
        (f"{KIND}reservedSystemCPUs: 4", "reservedSystemCPUs: not a string; put it in quotes"),
        (f"{KIND}reservedSystemCPUs: 0-x", "reservedSystemCPUs: "),
        (f"{KIND}kubeReserved: [1]", "kubeReserved: not a mapping of names"),
        (f"{KIND}kubeReserved: {{cpu: 1}}", "kubeReserved: cpu: not a string; put it in quotes"),
        (f"{KIND}cpuManagerPolicyOptions: {{a: true}}", "Options: a: not a string; put it in quo"),
        (f"{KIND}featureGates: {{a: 'true'}}", "featureGates: a: it is true or false"),
        (f"{KIND}featureGates: {{1: true}}", "featureGates: not a mapping of names"),
        (
            f"{KIND}cpuManagerPolicyOption: {{a: b}}",
            "cpuManagerPolicyOption: not a field of a KubeletConfiguration; "
            "did you mean cpuManagerPolicyOptions?",
        ),
        (f"{KIND}cpumanagerpolicy: static", "did you mean cpuManagerPolicy?"),
        (f"{KIND}7: static", "7: not a field of a KubeletConfiguration"),
        (f"{KIND}cpuManagerPolicy: [static]", "cpuManagerPolicy: not a string; put it in quotes"),
        ("a: [", "line 2, column 1: did not find expected node content"),
    ],
)
def test_a_file_that_is_no_configuration_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    line = refused(lambda: settings(Given(config=path)))
    assert line.startswith(f"{path}: ")
    assert said in line


def test_a_field_that_no_release_has_yet_may_be_of_one_to_come(tmp_path: Path) -> None:
    path = written(tmp_path, f"{KIND}cpuManagerPolicy: static\nnew: 1\n")
    assert settings(Given(config=path), release="1.38").policy == "static"


def test_the_fields_are_those_of_the_kubelets_own_module() -> None:
    """Of each release that Go has fetched, when a kubelet was built."""
    go = lacking.program("go")
    cache = subprocess.run([go, "env", "GOMODCACHE"], capture_output=True, text=True, check=True)
    files = list(Path(cache.stdout.strip()).glob("k8s.io/kubelet@*/config/v1beta1/types.go"))
    if not files:
        pytest.skip("no kubelet has been built here")
    for path in files:
        _, _, body = path.read_text().partition("type KubeletConfiguration struct {")
        names = set(re.findall(r'json:"(\w+)', body.partition("\n}")[0]))
        assert len(names) > 80
        assert names <= FIELDS, path


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Given(reserved="x"), "--reserved 'x': "),
        (Given(policy_option=["full"]), "--policy-option 'full': it is NAME=VALUE"),
        (Given(topology_manager_policy_option=["=1"]), "--topology-manager-policy-option '=1': it"),
        (Given(feature_gate=["A=yes"]), "--feature-gate 'A=yes': it is true or false"),
        (Given(kube_reserved="500m"), "--kube-reserved '500m': it is NAME=VALUE"),
        (Given(system_reserved="memory=1Gi"), "--system-reserved 'memory=1Gi': it is cpu=AMOUNT"),
        (Given(config=Path("nothing")), "nothing: No such file or directory"),
        (Given(config=Path("/")), "/: Is a directory"),
    ],
)
def test_an_option_that_is_none_is_one_line(given: Given, said: str) -> None:
    assert refused(lambda: settings(given)).startswith(said)


def test_a_list_of_reserved_cpus_is_too_new() -> None:
    assert "--reserved 1: 1.16 takes no list" in refused(
        lambda: settings(Given(reserved="1"), release="1.16")
    )


def test_what_a_node_archive_keeps_of_a_pod() -> None:
    """What decides CPUs and NUMA nodes, and nothing else."""
    limits = {"cpu": "2", "nvidia.com/gpu": "1", "hugepages-2Mi": "4Mi"}
    container = {"name": "c", "env": [{"name": "TOKEN", "value": "x"}], "image": "i",
                 "resources": {"limits": limits, "claims": [{"name": "x"}]}}  # fmt: skip
    spec = {"priority": 2000001000, "priorityClassName": "secret", "containers": [container]}
    (kept,) = bare({"kind": "Pod", "metadata": {"name": "a", "labels": {"x": "y"}}, "spec": spec})
    assert kept["spec"] == {
        "priority": 2000001000,
        "containers": [{"name": "c", "resources": {"limits": limits}}],
    }
    assert kept["metadata"] == {"name": "a"}
