"""Flavours: how the kubelet of each kind of node is found, restarted, asked and configured.

    flavour = flavour_of(facts)            # kubeadm, k3s, RKE2, k0s, MicroK8s, OpenShift, plain
    flavour.locate(facts)                  # Locations: unit, config, root-dir, state, manifests …
    shell.run(flavour.restart(facts))      # scripts; also stop, start, kill
    read_health(shell.run(flavour.health(facts)).text)         # Health
    shell.run(flavour.evidence(facts)).text                    # why it crashed: the journal's lines
    for change in flavour.configure(facts, KubeletConfig(policy="static")):
        guarded.change(change)

A flavour makes scripts and changes, and runs nothing: the caller decides what shares a round trip.
"""

from hil.distributions.distribution import Flavour, Health, Locations
from hil.distributions.kinds import NAMES, flavour_of
from hil.distributions.service import read_health

__all__ = ["NAMES", "Flavour", "Health", "Locations", "flavour_of", "read_health"]
