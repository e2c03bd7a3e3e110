"""The Topology Manager: ``pkg/kubelet/cm/topologymanager``."""
