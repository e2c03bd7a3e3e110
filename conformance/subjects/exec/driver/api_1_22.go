package main

import (
	cadvisorapi "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// How 1.22 to 1.35 are called: without contexts, loggers and operations.

type MachineInfo = cadvisorapi.MachineInfo

func admit(numa topologymanager.Manager, pod *v1.Pod, others []*v1.Pod) lifecycle.PodAdmitResult {
	return numa.Admit(&lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: others})
}

// resize asks as for a new pod: these releases make no difference.
func resize(numa topologymanager.Manager, pod *v1.Pod, others []*v1.Pod) lifecycle.PodAdmitResult {
	return admit(numa, pod, others)
}

func addContainer(cpus cpumanager.Manager, numa topologymanager.Manager, pod *v1.Pod, one *v1.Container, id string) {
	cpus.AddContainer(pod, one, id)
	numa.AddContainer(pod, one, id)
}

func forgetContainer(numa topologymanager.Manager, id string) {
	_ = numa.RemoveContainer(id)
}

func containerHints(cpus cpumanager.Manager, pod *v1.Pod, one *v1.Container) map[string][]topologymanager.TopologyHint {
	return cpus.GetTopologyHints(pod, one)
}

func podHints(cpus cpumanager.Manager, pod *v1.Pod) map[string][]topologymanager.TopologyHint {
	return cpus.GetPodTopologyHints(pod)
}

func affinityOf(numa topologymanager.Manager, uid, name string) topologymanager.TopologyHint {
	return numa.GetAffinity(uid, name)
}

func (silent) GetTopologyHints(*v1.Pod, *v1.Container) map[string][]topologymanager.TopologyHint {
	return nil
}

func (silent) GetPodTopologyHints(*v1.Pod) map[string][]topologymanager.TopologyHint {
	return nil
}

func (silent) Allocate(*v1.Pod, *v1.Container) error { return nil }

func (b *bench) allocate(pod *v1.Pod, one *v1.Container) error {
	return b.policy.Allocate(b.state, pod, one)
}
