"""The CPU manager: ``pkg/kubelet/cm/cpumanager``."""
