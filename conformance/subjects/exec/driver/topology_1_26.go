package main

import (
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// A Topology Manager with options.

func newTopologyManager(machine *MachineInfo, policy, scope string, options map[string]string) (topologymanager.Manager, error) {
	return topologymanager.NewManager(machine.Topology, policy, scope, options)
}
