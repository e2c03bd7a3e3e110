"""``pinproof fleet up`` in a process of its own, and the pods that tests create there."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import pytest

from tests.cli.running import Done, here
from tests.kubelet.test_kubelet_runner_killed import MARK, marked, wait_for_the_end
from tests.support import lacking
from tests.support.started import started
from tests.support.until import until
from topologies.user_cache import cache_folder

RELEASE: Final = "1.36"
SMALL: Final = ("1s-1n-4c-smt2", "--release", RELEASE)


class Running(NamedTuple):
    """``pinproof fleet up`` in a process of its own; ``cache`` is its ``$XDG_CACHE_HOME``."""

    process: subprocess.Popen[str]
    cache: Path
    mark: str

    def call(self, *words: str, status: int = 0) -> Done:
        return here("fleet", *words, status=status, XDG_CACHE_HOME=str(self.cache), COLUMNS="200")

    def folder(self, name: str = "default") -> Path:
        return self.cache / "pinproof/fleets" / name

    def line(self, begin: str) -> str:
        """The next line on stderr that begins so."""
        assert self.process.stderr is not None
        seen = []
        for line in self.process.stderr:
            seen.append(line)
            if line.startswith(begin):
                return line
        raise AssertionError(f"no {begin!r}: {''.join(seen)}")

    def last_line(self) -> str:
        """What it said on stderr before it ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read().splitlines()[-1]

    def api(self, name: str = "default") -> Any:
        """See :func:`client_of`."""
        return client_of(self.folder(name) / "kubeconfig")


def client_of(kubeconfig: Path) -> Any:
    """A client of a fleet's API server; without the library, the test skips."""
    config = lacking.module("kubernetes.config")
    client = lacking.module("kubernetes.client")
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("NO_PROXY", "no_proxy"):
            patch.setenv(variable, "127.0.0.1")
        return client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))


Up: TypeAlias = Callable[..., AbstractContextManager[Running]]


def cache_without_fleets(cache: Path) -> Path:
    """The kubelets and API servers of the user's cache, and no fleet."""
    (cache / "pinproof").mkdir()
    for name in ("kubelets", "apiservers", "schedulers", "controller-managers"):
        (cache / "pinproof" / name).symlink_to(cache_folder(name))
    return cache


def runner(cache: Path) -> Up:
    """Runs ``fleet up`` with this cache."""

    @contextmanager
    def run(*words: str) -> Iterator[Running]:
        mark = uuid.uuid4().hex
        command = ("-m", "pinproof", "fleet", "up", *words)
        environment = {"XDG_CACHE_HOME": str(cache), MARK: mark}
        process = started(*command, stderr=subprocess.PIPE, **environment)
        with process:
            try:
                yield Running(process, cache, mark)
            finally:
                process.kill()
        for pid in marked(mark):
            wait_for_the_end(pid)

    return run


def runs(pid: int, program: str) -> bool:
    """Whether the process is of this program."""
    first, _, _ = Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")
    return first.endswith(f"/{program}".encode())


def pod_of(name: str, node: str | None, cpu: str) -> dict[str, Any]:
    """A Guaranteed pod with one container, c."""
    container = {
        "name": "c",
        "image": "example.com/none",
        "resources": {"limits": {"cpu": cpu, "memory": "64Mi"}},
    }
    return {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [container]}}


def create(api: Any, name: str, node: str | None, cpu: str, phase: str) -> Any:
    """The pod's status, once it has this phase."""
    api.create_namespaced_pod("default", pod_of(name, node, cpu))
    assert until(lambda: api.read_namespaced_pod(name, "default").status.phase == phase), name
    return api.read_namespaced_pod(name, "default").status


def names(api: Any) -> set[str]:
    """Of the pods."""
    return {one.metadata.name for one in api.list_namespaced_pod("default").items}
