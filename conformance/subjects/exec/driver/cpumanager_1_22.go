package main

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// A CPU manager without loggers.

func discover(machine *MachineInfo) (*topology.CPUTopology, error) {
	return topology.Discover(machine)
}

func newCPUManager(machine *MachineInfo, config *settings, reserved CPUSet, reservation v1.ResourceList, dir string, numa topologymanager.Manager) (cpumanager.Manager, error) {
	return cpumanager.NewManager(config.CPUManagerPolicy, config.CPUManagerPolicyOptions,
		time.Nanosecond, machine, reserved, reservation, dir, numa)
}

func addHintProvider(numa topologymanager.Manager, provider topologymanager.HintProvider) {
	numa.AddHintProvider(provider)
}

func startCPUManager(cpus cpumanager.Manager, k *kubelet, containers containermap.ContainerMap) error {
	return cpus.Start(k.activePods, k, k, runtimeOf{k}, containers)
}

func newPolicy(found *topology.CPUTopology, reserved CPUSet, numa topologymanager.Store, options map[string]string) (cpumanager.Policy, error) {
	return cpumanager.NewStaticPolicy(found, reserved.Size(), reserved, numa, options)
}

func newMemoryState() state.State { return state.NewMemoryState() }

func (b *bench) start() error { return b.policy.Start(b.state) }

func (b *bench) remove(uid, name string) error {
	return b.policy.RemoveContainer(b.state, uid, name)
}
