"""A plugin of Sonobuoy: each node of a cluster certifies itself.

What belongs here: the plugin's definition, and the script of its pods. What never does: options
(:mod:`pinproof.job`), and how a pod gets to its node (:mod:`hil.transport.host`).

Source: https://sonobuoy.io/docs/main/plugins/, and ``pkg/plugin/manifest`` and ``pkg/worker`` of
github.com/vmware-tanzu/sonobuoy.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, Final

#: Where Sonobuoy's own container looks for results, and for the file ``done``.
RESULTS: Final = "/tmp/sonobuoy/results"  # noqa: S108 Sonobuoy chose it
#: Seconds that a pod has to restore its node.
_GRACE: Final = 120


def plugin(
    name: str, image: str, words: Sequence[str], allow: Sequence[str] = ()
) -> dict[str, Any]:
    """The definition of plugin ``name``: a pod on each node, in ``image``, which has ``pinproof``
    on its path. ``words`` are options of ``pinproof certify``; ``allow`` is that of an inventory.

    Sonobuoy takes a node's verdict from the report's junit.xml. A node without one is unknown.
    """
    return {
        "sonobuoy-config": {
            "driver": "DaemonSet",
            "plugin-name": name,
            "description": "CPU Manager conformance of each node's kubelet",
            "result-format": "junit",
            "result-files": ["junit.xml"],
        },
        "podSpec": {
            "automountServiceAccountToken": False,
            "hostPID": True,
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "serviceAccountName": "sonobuoy-serviceaccount",
            "terminationGracePeriodSeconds": _GRACE,
            "tolerations": [{"operator": "Exists"}],
        },
        "spec": {
            "name": "plugin",
            "image": image,
            "command": ["sh", "-c", script(words, allow)],
            "env": [
                {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "SONOBUOY_RESULTS_DIR", "value": RESULTS},
            ],
            "securityContext": {"privileged": True, "runAsUser": 0},
            "volumeMounts": [{"name": "results", "mountPath": RESULTS}],
        },
    }


def script(words: Sequence[str], allow: Sequence[str] = ()) -> str:
    """What a pod's shell runs. A container of a DaemonSet is started again when it ends, so it
    waits; one that was started again after its results were written does nothing. When the pod is
    deleted, pinproof restores the node. The file ``done`` is put in place at once."""
    allowed = ", ".join(f'"{one}"' for one in allow)
    return f"""\
cd "$SONOBUOY_RESULTS_DIR" || exit
if [ ! -e done ]; then
  mkdir -p out
  cat >out/node.toml <<END
[[node]]
name = "$(printf %.63s "$NODE_NAME")"
url = "host:"
allow = [{allowed}]
END
  {shlex.join(["pinproof", "certify", "out/node.toml", *words])} --report out >out/log 2>&1 &
  run=$!
  trap 'ended=yes; kill $run' TERM
  wait $run
  status=$?
  [ -z "$ended" ] || {{ wait $run; exit; }}
  echo "pinproof ended with exit status $status" >>out/log
  cat out/log
  tar -czf results.tar.gz -C out .
  echo "$SONOBUOY_RESULTS_DIR/results.tar.gz" >new
  mv new done
fi
exec sleep infinity
"""
