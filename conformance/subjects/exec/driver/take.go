package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// take has the static policy allocate to a container on a machine, again and again from the same
// state, and says how long each took. The state is in memory: there is no file to write.
func (d *driver) take(asked *request) (answer, error) {
	place := d.place
	if asked.Machine != nil {
		place = &site{asked.Machine, asked.Config, asked.Reserved, nil}
	}
	if place == nil || place.config == nil || asked.Count < 1 || asked.Rounds < 1 {
		return answer{}, errors.New("take: machine, config, count and rounds are needed")
	}
	d.place = place
	if err := d.gates.apply(place.config.FeatureGates); err != nil {
		return answer{}, err
	}
	found, err := place.explored()
	if err != nil {
		return answer{}, err
	}
	place.found = nil // what the CPU manager panics over is not used again
	reply, err := place.take(found, asked)
	place.found = found
	return reply, err
}

// site is what a request for an allocation is about: a machine and its kubelet's settings. Later
// requests may leave it out.
type site struct {
	machine  json.RawMessage
	config   *settings
	reserved string
	found    *surroundings
}

// surroundings are what a static policy is made with. It reads them, and changes none.
type surroundings struct {
	cpus *topology.CPUTopology
	numa topologymanager.Manager
}

// explored is made once for a site.
func (s *site) explored() (*surroundings, error) {
	if s.found != nil {
		return s.found, nil
	}
	info := &MachineInfo{}
	if err := json.Unmarshal(s.machine, info); err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	cpus, err := discover(info)
	if err != nil {
		return nil, err
	}
	numa, err := newTopologyManager(info, "none", "container", nil)
	if err != nil {
		return nil, err
	}
	return &surroundings{cpus, numa}, nil
}

func (s *site) take(found *surroundings, asked *request) (answer, error) {
	bench, err := s.newBench(found, asked.Busy)
	if err != nil {
		return answer{}, err
	}
	pod := podOf(asked.Count)
	corev1.SetObjectDefaults_Pod(pod)
	one := &pod.Spec.Containers[0]
	var cpus string
	nanoseconds := make([]int64, 0, asked.Rounds)
	for i := 0; i < asked.Rounds; i++ {
		begun := time.Now()
		err := bench.allocate(pod, one)
		nanoseconds = append(nanoseconds, time.Since(begun).Nanoseconds())
		if err != nil {
			return answer{}, fmt.Errorf("take: %w", err)
		}
		got, _ := bench.state.GetCPUSet(string(pod.UID), one.Name)
		cpus = got.String()
		if err := bench.remove(string(pod.UID), one.Name); err != nil {
			return answer{}, fmt.Errorf("take: %w", err)
		}
	}
	return answer{CPUs: &cpus, Nanoseconds: nanoseconds}, nil
}

// bench is a static policy on its own, with a state in memory.
type bench struct {
	policy cpumanager.Policy
	state  state.State
}

// newBench makes policy and state: no request before has used them.
func (s *site) newBench(found *surroundings, busyText string) (*bench, error) {
	reserved, err := parseCPUs(s.reserved)
	if err != nil {
		return nil, err
	}
	busy, err := parseCPUs(busyText)
	if err != nil {
		return nil, err
	}
	policy, err := newPolicy(found.cpus, reserved, found.numa, s.config.CPUManagerPolicyOptions)
	if err != nil {
		return nil, err
	}
	made := &bench{policy, newMemoryState()}
	if err := made.start(); err != nil {
		return nil, err
	}
	if !busy.IsEmpty() {
		made.state.SetDefaultCPUSet(made.state.GetDefaultCPUSet().Difference(busy))
		made.state.SetCPUSet("busy", "c", busy)
	}
	return made, nil
}

func podOf(cpus int) *v1.Pod {
	amounts := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(cpus), resource.DecimalSI),
		v1.ResourceMemory: resource.MustParse("1Mi"),
	}
	pod := &v1.Pod{}
	pod.Name, pod.UID = "taker", "taker"
	pod.Spec.Containers = []v1.Container{{
		Name:      "c",
		Resources: v1.ResourceRequirements{Requests: amounts, Limits: amounts},
	}}
	return pod
}
