"""The memory manager: ``pkg/kubelet/cm/memorymanager``."""
