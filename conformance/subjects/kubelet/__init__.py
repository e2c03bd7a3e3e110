"""Kubelet in the loop: an unmodified kubelet on a machine that is not there."""
