package main

import (
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// A Topology Manager with a logger.

func newTopologyManager(machine *MachineInfo, policy, scope string, options map[string]string) (topologymanager.Manager, error) {
	return topologymanager.NewManager(klog.Background(), machine.Topology, policy, scope, options)
}
