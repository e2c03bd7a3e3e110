package main

import (
	cadvisorapi "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// How 1.36 is called: operations at admission only, and loggers for the CPU manager only.

type MachineInfo = cadvisorapi.MachineInfo

func admit(numa topologymanager.Manager, pod *v1.Pod, others []*v1.Pod) lifecycle.PodAdmitResult {
	return numa.Admit(&lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: others, Operation: lifecycle.AddOperation})
}

func resize(numa topologymanager.Manager, pod *v1.Pod, others []*v1.Pod) lifecycle.PodAdmitResult {
	return numa.Admit(&lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: others, Operation: lifecycle.ResizeOperation})
}

func addContainer(cpus cpumanager.Manager, numa topologymanager.Manager, pod *v1.Pod, one *v1.Container, id string) {
	cpus.AddContainer(klog.Background(), pod, one, id)
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

func (silent) AllocatePod(*v1.Pod) error { return nil }

func (b *bench) allocate(pod *v1.Pod, one *v1.Container) error {
	return b.policy.Allocate(klog.Background(), b.state, pod, one)
}
