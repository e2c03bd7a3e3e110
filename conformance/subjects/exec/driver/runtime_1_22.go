package main

import (
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1alpha2"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
)

// A runtime without contexts.

func (r runtimeOf) UpdateContainerResources(id string, resources *runtimeapi.LinuxContainerResources) error {
	r.send(id, resources.CpusetCpus)
	return nil
}

func cpusFor(cpus cpumanager.Manager, uid, name string) CPUSet { return cpus.GetCPUs(uid, name) }
