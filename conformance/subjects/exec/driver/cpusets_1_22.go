package main

import "k8s.io/kubernetes/pkg/kubelet/cm/cpuset"

// CPUSet is the kubelet's own up to 1.27.
type CPUSet = cpuset.CPUSet

func parseCPUs(text string) (CPUSet, error) { return cpuset.Parse(text) }
