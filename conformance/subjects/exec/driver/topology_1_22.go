package main

import (
	"fmt"

	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// A Topology Manager without options.

func newTopologyManager(machine *MachineInfo, policy, scope string, options map[string]string) (topologymanager.Manager, error) {
	if len(options) > 0 {
		return nil, fmt.Errorf("topologyManagerPolicyOptions: not in this release")
	}
	return topologymanager.NewManager(machine.Topology, policy, scope)
}
