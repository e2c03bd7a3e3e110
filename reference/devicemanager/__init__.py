"""The device manager: ``pkg/kubelet/cm/devicemanager``."""
