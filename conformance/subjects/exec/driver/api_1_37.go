package main

import (
	"context"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// How 1.37 is called: contexts, loggers and operations throughout.

type MachineInfo = cadvisorapi.MachineInfo

func admit(numa topologymanager.Manager, pod *v1.Pod, others []*v1.Pod) lifecycle.PodAdmitResult {
	return numa.Admit(context.Background(), &lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: others, Operation: lifecycle.AddOperation})
}

func resize(numa topologymanager.Manager, pod *v1.Pod, others []*v1.Pod) lifecycle.PodAdmitResult {
	return numa.Admit(context.Background(), &lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: others, Operation: lifecycle.ResizeOperation})
}

func addContainer(cpus cpumanager.Manager, numa topologymanager.Manager, pod *v1.Pod, one *v1.Container, id string) {
	cpus.AddContainer(klog.Background(), pod, one, id)
	numa.AddContainer(klog.Background(), pod, one, id)
}

func forgetContainer(numa topologymanager.Manager, id string) {
	_ = numa.RemoveContainer(klog.Background(), id)
}

func containerHints(cpus cpumanager.Manager, pod *v1.Pod, one *v1.Container) map[string][]topologymanager.TopologyHint {
	return cpus.GetTopologyHints(klog.Background(), pod, one, lifecycle.AddOperation)
}

func podHints(cpus cpumanager.Manager, pod *v1.Pod) map[string][]topologymanager.TopologyHint {
	return cpus.GetPodTopologyHints(klog.Background(), pod, lifecycle.AddOperation)
}

func affinityOf(numa topologymanager.Manager, uid, name string) topologymanager.TopologyHint {
	return numa.GetAffinity(klog.Background(), uid, name)
}

func (silent) GetTopologyHints(klog.Logger, *v1.Pod, *v1.Container, lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	return nil
}

func (silent) GetPodTopologyHints(klog.Logger, *v1.Pod, lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	return nil
}

func (silent) Allocate(context.Context, *v1.Pod, *v1.Container, lifecycle.Operation) error {
	return nil
}

func (silent) AllocatePod(klog.Logger, *v1.Pod, lifecycle.Operation) error { return nil }

func (b *bench) allocate(pod *v1.Pod, one *v1.Container) error {
	return b.policy.Allocate(klog.Background(), b.state, pod, one, lifecycle.AddOperation)
}
