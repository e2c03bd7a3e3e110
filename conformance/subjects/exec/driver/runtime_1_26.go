package main

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
)

// A runtime with contexts.

func (r runtimeOf) UpdateContainerResources(_ context.Context, id string, resources *runtimeapi.ContainerResources) error {
	r.send(id, resources.Linux.CpusetCpus)
	return nil
}

func cpusFor(cpus cpumanager.Manager, uid, name string) CPUSet { return cpus.GetCPUAffinity(uid, name) }
