package main

import "k8s.io/utils/cpuset"

// CPUSet is that of k8s.io/utils from 1.28 on.
type CPUSet = cpuset.CPUSet

func parseCPUs(text string) (CPUSet, error) { return cpuset.Parse(text) }
