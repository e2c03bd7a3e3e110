package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

const (
	stateName = "cpu_manager_state"
	// Where a kubelet has its state file, and errors name it.
	stateDir = "/var/lib/kubelet"
)

// silent stands for the other hint providers of a kubelet, none of which has a preference here.
type silent struct{}

// node is one machine with one kubelet; cpus and numa are nil while it is down.
type node struct {
	dir     string
	machine *MachineInfo
	config  settings
	kubelet *kubelet
	cpus    cpumanager.Manager
	numa    topologymanager.Manager

	told  []byte
	fresh bool
}

func newNode() (*node, error) {
	dir, err := os.MkdirTemp("", "node-")
	if err != nil {
		return nil, err
	}
	return &node{dir: dir, fresh: true}, nil
}

func (n *node) do(asked *request) (answer, error) {
	switch asked.Op {
	case "stop":
		n.abandon()
		return answer{}, nil
	case "admit":
		return n.admit(asked)
	case "resize":
		return n.resize(asked)
	case "create":
		return n.create(asked)
	case "remove":
		n.remove(asked.PodUID)
		return answer{}, nil
	case "reconcile":
		return n.reconcile(asked), nil
	case "hints":
		return n.hints(asked)
	}
	return answer{}, fmt.Errorf("unknown op %q", asked.Op)
}

// start starts a kubelet. What the request leaves out is as it was.
func (n *node) start(asked *request, gates *gates) (answer, error) {
	if asked.Machine != nil {
		n.machine = &MachineInfo{}
		if err := json.Unmarshal(asked.Machine, n.machine); err != nil {
			return answer{}, fmt.Errorf("machine: %w", err)
		}
	}
	if asked.Config != nil {
		n.config = *asked.Config
	}
	if n.machine == nil {
		return answer{}, errors.New("start: the first one needs a machine")
	}
	if asked.StateGiven {
		if err := n.putState(asked.State); err != nil {
			return answer{}, err
		}
	}
	if err := gates.apply(n.config.FeatureGates); err != nil {
		return refused("configuration", err), nil
	}
	n.kubelet = newKubelet()
	cpus, numa, err := n.managers()
	if err != nil {
		return refused("configuration", err), nil
	}
	n.kubelet.loops = n.config.CPUManagerPolicy != string(cpumanager.PolicyNone)
	if err := startCPUManager(cpus, n.kubelet, containerMap(asked.Containers)); err != nil {
		n.kubelet.loops = false
		return refused("start", n.asInKubelet(err)), nil
	}
	if n.kubelet.loops {
		n.kubelet.awaitLoop()
	}
	n.cpus, n.numa = cpus, numa
	return answer{}, nil
}

// managers makes both managers as container_manager_linux.go does, in its order, after the check of
// the reserved CPUs in cmd/kubelet/app/server.go.
func (n *node) managers() (cpumanager.Manager, topologymanager.Manager, error) {
	var reserved CPUSet
	if n.config.ReservedSystemCPUs != "" {
		found, err := n.reservedCPUs()
		if err != nil {
			return nil, nil, err
		}
		reserved = found
	}
	if err := requireFor(&n.config); err != nil {
		return nil, nil, err
	}
	reservation, err := n.reservation(reserved.Size())
	if err != nil {
		return nil, nil, err
	}
	numa, err := newTopologyManager(n.machine, orElse(n.config.TopologyManagerPolicy, "none"),
		orElse(n.config.TopologyManagerScope, "container"), n.config.TopologyManagerPolicyOptions)
	if err != nil {
		return nil, nil, err
	}
	cpus, err := newCPUManager(n.machine, &n.config, reserved, reservation, n.dir, numa)
	if err != nil {
		return nil, nil, err
	}
	addHintProvider(numa, silent{})
	addHintProvider(numa, cpus)
	return cpus, numa, nil
}

func (n *node) reservedCPUs() (CPUSet, error) {
	none := CPUSet{}
	found, err := discover(n.machine)
	if err != nil {
		return none, fmt.Errorf("unable to discover CPU topology info: %s", err)
	}
	text := n.config.ReservedSystemCPUs
	cpus, err := parseCPUs(text)
	if err != nil {
		return none, fmt.Errorf("unable to parse reserved-cpus list: %s", err)
	}
	if all := found.CPUDetails.CPUs(); !cpus.IsSubsetOf(all) {
		return none, fmt.Errorf("reserved-cpus: %s is not a subset of online-cpus: %s", text, all.String())
	}
	return cpus, nil
}

// reservation is what a kubelet passes on of system and kube reservation. A list of CPUs outranks
// both, and a sum of nothing is left out.
func (n *node) reservation(listed int) (v1.ResourceList, error) {
	texts := map[string]string{"system": n.config.SystemReserved["cpu"], "kube": n.config.KubeReserved["cpu"]}
	if listed > 0 {
		texts = map[string]string{"system": strconv.Itoa(listed)}
	}
	var sum resource.Quantity
	for name, text := range texts {
		if text == "" {
			continue
		}
		amount, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("--%s-reserved value failed to parse: failed to parse quantity %q for %q resource: %w", name, text, "cpu", err)
		}
		if amount.Sign() == -1 {
			return nil, fmt.Errorf("--%s-reserved value failed to parse: resource quantity for %q cannot be negative: %v", name, "cpu", text)
		}
		sum.Add(amount)
	}
	if sum.IsZero() {
		return v1.ResourceList{}, nil
	}
	return v1.ResourceList{v1.ResourceCPU: sum}, nil
}

func (n *node) admit(asked *request) (answer, error) {
	pod, err := decodePod(asked.Pod)
	if err != nil {
		return answer{}, err
	}
	others := n.kubelet.pods
	n.kubelet.pods = append(append([]*v1.Pod(nil), others...), pod)
	result := admit(n.numa, pod, others)
	if !result.Admit {
		n.kubelet.pods = others
	}
	return n.admission(pod, result), nil
}

// resize is the admission of a pod that is there, with other requests. Refused, it stays as it was.
// What a kubelet refuses before it asks the two managers is the tester's.
func (n *node) resize(asked *request) (answer, error) {
	pod, err := decodePod(asked.Pod)
	if err != nil {
		return answer{}, err
	}
	var others, resized []*v1.Pod
	for _, each := range n.kubelet.pods {
		if each.UID == pod.UID {
			resized = append(resized, pod)
			continue
		}
		others = append(others, each)
		resized = append(resized, each)
	}
	if len(others) == len(resized) {
		return answer{}, fmt.Errorf("resize: pod %q is not admitted", pod.UID)
	}
	result := resize(n.numa, pod, others)
	if result.Admit {
		n.kubelet.pods = resized
	}
	return n.admission(pod, result), nil
}

func (n *node) admission(pod *v1.Pod, result lifecycle.PodAdmitResult) answer {
	reply := answer{Admitted: &result.Admit, Reason: result.Reason, Message: result.Message}
	if policy := n.config.TopologyManagerPolicy; result.Admit && policy != "" && policy != "none" {
		reply.Affinity = map[string]hint{}
		for _, each := range allContainers(pod) {
			reply.Affinity[each.Name] = hintOf(affinityOf(n.numa, string(pod.UID), each.Name))
		}
	}
	return reply
}

// create is what the kubelet's hooks do before a container is created and before it starts.
func (n *node) create(asked *request) (answer, error) {
	pod := n.pod(asked.PodUID)
	if pod == nil {
		return answer{}, fmt.Errorf("create: pod %q is not admitted", asked.PodUID)
	}
	for _, each := range allContainers(pod) {
		if each.Name == asked.Container {
			cpus := cpusFor(n.cpus, asked.PodUID, each.Name)
			text := cpus.String()
			addContainer(n.cpus, n.numa, pod, each, asked.ContainerID)
			return answer{CPUs: &text}, nil
		}
	}
	return answer{}, fmt.Errorf("create: pod %q has no container %q", asked.PodUID, asked.Container)
}

// remove has the pod's containers ended and the pod no longer active. What it holds goes at the next
// admission or round, as in a kubelet.
func (n *node) remove(uid string) {
	var rest []*v1.Pod
	for _, pod := range n.kubelet.pods {
		if string(pod.UID) != uid {
			rest = append(rest, pod)
		}
	}
	n.kubelet.pods = rest
	for id, ref := range n.kubelet.refs {
		if ref.PodUID == uid {
			forgetContainer(n.numa, id)
		}
	}
}

func (n *node) reconcile(asked *request) answer {
	n.kubelet.ready = true
	n.kubelet.see(asked.Containers)
	n.kubelet.updates = []update{}
	n.kubelet.round()
	sent := n.kubelet.updates
	return answer{Updates: &sent}
}

func (n *node) hints(asked *request) (answer, error) {
	pod, err := decodePod(asked.Pod)
	if err != nil {
		return answer{}, err
	}
	if n.pod(string(pod.UID)) == nil {
		others := n.kubelet.pods
		n.kubelet.pods = append(append([]*v1.Pod(nil), others...), pod)
		defer func() { n.kubelet.pods = others }()
	}
	if asked.Container == "" {
		return answer{Hints: hintsOf(podHints(n.cpus, pod))}, nil
	}
	for _, each := range allContainers(pod) {
		if each.Name == asked.Container {
			return answer{Hints: hintsOf(containerHints(n.cpus, pod, each))}, nil
		}
	}
	return answer{}, fmt.Errorf("hints: pod %q has no container %q", pod.UID, asked.Container)
}

func (n *node) pod(uid string) *v1.Pod {
	for _, pod := range n.kubelet.pods {
		if string(pod.UID) == uid {
			return pod
		}
	}
	return nil
}

// abandon ends a kubelet; what it wrote stays.
func (n *node) abandon() {
	if n.kubelet != nil {
		n.kubelet.end()
	}
	n.kubelet, n.cpus, n.numa = nil, nil, nil
}

func (n *node) close() {
	n.abandon()
	os.RemoveAll(n.dir)
}

func (n *node) putState(state *stateFile) error {
	path := filepath.Join(n.dir, stateName)
	if state == nil {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		n.told, n.fresh = nil, false
		return nil
	}
	n.told, n.fresh = state.content, false
	return os.WriteFile(path, state.content, 0o600)
}

// stateChange is the state file's text, if it is not what the tester knows.
func (n *node) stateChange() *json.RawMessage {
	content, err := os.ReadFile(filepath.Join(n.dir, stateName))
	if err != nil {
		content = nil
	}
	same := (content == nil) == (n.told == nil) && bytes.Equal(content, n.told)
	if same && !n.fresh {
		return nil
	}
	n.told, n.fresh = content, false
	return stateText(content)
}

func (n *node) asInKubelet(err error) error {
	return errors.New(strings.ReplaceAll(err.Error(), n.dir, stateDir))
}

func refused(stage string, err error) answer {
	return answer{Refused: &refusal{Stage: stage, Message: err.Error()}}
}

func containerMap(containers []container) containermap.ContainerMap {
	known := containermap.NewContainerMap()
	for _, each := range containers {
		known.Add(each.PodUID, each.Name, each.ID)
	}
	return known
}

// decodePod reads a pod as the kubelet reads a manifest: with the API's defaults.
func decodePod(text json.RawMessage) (*v1.Pod, error) {
	pod := &v1.Pod{}
	if err := json.Unmarshal(text, pod); err != nil {
		return nil, fmt.Errorf("pod: %w", err)
	}
	if pod.UID == "" {
		return nil, errors.New("pod: no uid")
	}
	corev1.SetObjectDefaults_Pod(pod)
	return pod, nil
}

func allContainers(pod *v1.Pod) []*v1.Container {
	var all []*v1.Container
	for i := range pod.Spec.InitContainers {
		all = append(all, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		all = append(all, &pod.Spec.Containers[i])
	}
	return all
}

func hintsOf(found map[string][]topologymanager.TopologyHint) *map[string]*[]hint {
	shown := map[string]*[]hint{}
	for name, hints := range found {
		if hints == nil {
			shown[name] = nil
			continue
		}
		list := []hint{}
		for _, one := range hints {
			list = append(list, hintOf(one))
		}
		shown[name] = &list
	}
	if found == nil {
		shown = nil
	}
	return &shown
}

func hintOf(one topologymanager.TopologyHint) hint {
	if one.NUMANodeAffinity == nil {
		return hint{Preferred: one.Preferred}
	}
	nodes := append([]int{}, one.NUMANodeAffinity.GetBits()...)
	return hint{NUMA: &nodes, Preferred: one.Preferred}
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
