"""Kubelet in the loop: an unmodified kubelet on a machine that is not there."""

from conformance.subjects.kubelet.subject import KubeletSubject

__all__ = ["KubeletSubject"]
