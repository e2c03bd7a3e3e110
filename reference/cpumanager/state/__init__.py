"""The CPU manager's state and its file: ``pkg/kubelet/cm/cpumanager/state``."""
