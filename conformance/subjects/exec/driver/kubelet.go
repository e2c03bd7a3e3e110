package main

import (
	"runtime"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kubelet is what the CPU manager asks of the kubelet around it: whether all pod sources were heard
// (config.SourcesReady), the active pods, their status (status.PodStatusProvider), and a runtime
// that is sent cpusets.
//
// The CPU manager reconciles in a loop of its own, which begins each round with the question whether
// the sources are ready, before it takes its lock. There it is held until a round is asked for. A
// round is over when the loop comes to ask the next time.
type kubelet struct {
	pods     []*v1.Pod
	statuses map[types.UID]v1.PodStatus
	refs     map[string]container
	updates  []update
	ready    bool

	loops   bool
	held    atomic.Bool
	arrived chan struct{}
	opened  chan bool
}

func newKubelet() *kubelet {
	return &kubelet{
		statuses: map[types.UID]v1.PodStatus{},
		refs:     map[string]container{},
		arrived:  make(chan struct{}),
		opened:   make(chan bool),
	}
}

func (k *kubelet) AddSource(string) {}

func (k *kubelet) AllReady() bool {
	if k.loops && !k.held.Load() {
		k.held.Store(true)
		k.arrived <- struct{}{}
		if !<-k.opened {
			runtime.Goexit()
		}
	}
	return k.ready
}

// awaitLoop returns once the loop of a CPU manager that has just started is held.
func (k *kubelet) awaitLoop() {
	<-k.arrived
}

// round lets the loop go through one round.
func (k *kubelet) round() {
	if !k.loops {
		return
	}
	k.held.Store(false)
	k.opened <- true
	<-k.arrived
}

// end ends the loop.
func (k *kubelet) end() {
	if k.loops && k.held.Load() {
		k.opened <- false
	}
}

func (k *kubelet) activePods() []*v1.Pod {
	return k.pods
}

func (k *kubelet) GetPodStatus(uid types.UID) (v1.PodStatus, bool) {
	status, ok := k.statuses[uid]
	return status, ok
}

// send is the runtime's end of an UpdateContainerResources.
func (k *kubelet) send(id, cpus string) {
	ref := k.refs[id]
	k.updates = append(k.updates, update{PodUID: ref.PodUID, Container: ref.Name, CPUs: cpus})
}

// see takes what the runtime has as the status of the active pods.
func (k *kubelet) see(containers []container) {
	k.statuses = map[types.UID]v1.PodStatus{}
	k.refs = map[string]container{}
	states := map[string]map[string]v1.ContainerStatus{}
	for _, each := range containers {
		k.refs[each.ID] = each
		if states[each.PodUID] == nil {
			states[each.PodUID] = map[string]v1.ContainerStatus{}
		}
		states[each.PodUID][each.Name] = status(each)
	}
	for _, pod := range k.pods {
		of := states[string(pod.UID)]
		k.statuses[pod.UID] = v1.PodStatus{
			Phase:                 v1.PodRunning,
			InitContainerStatuses: inOrder(pod.Spec.InitContainers, of),
			ContainerStatuses:     inOrder(pod.Spec.Containers, of),
		}
	}
}

func inOrder(specs []v1.Container, of map[string]v1.ContainerStatus) []v1.ContainerStatus {
	var found []v1.ContainerStatus
	for _, spec := range specs {
		if one, ok := of[spec.Name]; ok {
			found = append(found, one)
		}
	}
	return found
}

func status(one container) v1.ContainerStatus {
	status := v1.ContainerStatus{Name: one.Name, ContainerID: "pinproof://" + one.ID}
	if one.State == "running" {
		status.State.Running = &v1.ContainerStateRunning{}
	} else {
		status.State.Terminated = &v1.ContainerStateTerminated{}
	}
	return status
}

// runtimeOf is the kubelet as the runtime of its CPU manager.
type runtimeOf struct{ *kubelet }
