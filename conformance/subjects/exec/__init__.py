"""The subject ``exec:COMMAND``: a program that speaks the protocol of JSON lines. The project has
one in Go (``driver``), around the kubelet's own CPU manager."""

from conformance.subjects.exec.subject import ExecSubject

__all__ = ["ExecSubject"]
