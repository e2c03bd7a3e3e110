"""Distributions: how the kubelet of each kind of node is found, started, stopped and configured.

    distribution = distribution_of(facts)  # kubeadm, k3s, EKS, Talos … standalone
    shell.run(distribution.start(facts))   # scripts; also stop, kill, identity
    guarded.change(*distribution.configure(facts, KubeletConfig(policy="static")))

A distribution makes scripts and changes, and runs nothing: the caller decides what shares a round
trip.
"""

from hil.distributions.distribution import Distribution
from hil.distributions.kinds import distribution_of

__all__ = ["Distribution", "distribution_of"]
