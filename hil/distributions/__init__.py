"""Distributions: how the kubelet of each kind of node is found, restarted, asked and configured.

    distribution = distribution_of(facts)            # kubeadm, k3s, RKE2, k0s, MicroK8s, OpenShift,
    plain distribution.locate(facts)                  # Locations: unit, config, root-dir, state,
    manifests … shell.run(distribution.restart(facts))      # scripts; also stop, start, kill
    read_health(shell.run(distribution.health(facts)).text)         # Health
    shell.run(distribution.evidence(facts)).text                    # why it crashed: the journal's
    lines for change in distribution.configure(facts, KubeletConfig(policy="static")):
        guarded.change(change)

A distribution makes scripts and changes, and runs nothing: the caller decides what shares a round
trip.
"""

from hil.distributions.distribution import Distribution, Health, Locations
from hil.distributions.kinds import NAMES, distribution_of
from hil.distributions.service import read_health

__all__ = ["NAMES", "Distribution", "Health", "Locations", "distribution_of", "read_health"]
