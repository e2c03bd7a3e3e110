"""Kubelet in the loop: an unmodified kubelet that sees a machine of the catalogue."""

from conformance.subjects.kubelet.subject import KubeletSubject

__all__ = ["KubeletSubject"]
