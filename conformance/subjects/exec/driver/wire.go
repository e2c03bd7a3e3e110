package main

import (
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"
)

// request is one line of the tester's; which fields it has hangs on Op.
type request struct {
	ID       int64  `json:"id"`
	Op       string `json:"op"`
	Protocol int    `json:"protocol"`
	Node     string `json:"node"`

	Machine json.RawMessage `json:"machine"`
	Config  *settings       `json:"config"`
	State   *stateFile      `json:"state_file"`
	// A null is a removed file, and not the same as no word of it.
	StateGiven bool `json:"-"`

	Pod         json.RawMessage `json:"pod"`
	PodUID      string          `json:"pod_uid"`
	Container   string          `json:"container"`
	ContainerID string          `json:"container_id"`
	Containers  []container     `json:"containers"`

	Reserved string `json:"reserved"`
	Busy     string `json:"busy"`
	Count    int    `json:"count"`
	Rounds   int    `json:"rounds"`
}

func (r *request) UnmarshalJSON(text []byte) error {
	type plain request
	var presence struct {
		State json.RawMessage `json:"state_file"`
	}
	if err := json.Unmarshal(text, (*plain)(r)); err != nil {
		return err
	}
	if r.Op != "start" {
		return nil
	}
	if err := json.Unmarshal(text, &presence); err != nil {
		return err
	}
	r.StateGiven = presence.State != nil
	return nil
}

// settings are those of KubeletConfiguration that decide CPUs, under its names.
type settings struct {
	CPUManagerPolicy             string            `json:"cpuManagerPolicy"`
	CPUManagerPolicyOptions      map[string]string `json:"cpuManagerPolicyOptions"`
	ReservedSystemCPUs           string            `json:"reservedSystemCPUs"`
	SystemReserved               map[string]string `json:"systemReserved"`
	KubeReserved                 map[string]string `json:"kubeReserved"`
	FeatureGates                 map[string]bool   `json:"featureGates"`
	TopologyManagerPolicy        string            `json:"topologyManagerPolicy"`
	TopologyManagerScope         string            `json:"topologyManagerScope"`
	TopologyManagerPolicyOptions map[string]string `json:"topologyManagerPolicyOptions"`
}

// container is one of the runtime's; State is running or exited.
type container struct {
	PodUID string `json:"pod_uid"`
	Name   string `json:"name"`
	ID     string `json:"id"`
	State  string `json:"state"`
}

// answer is one line of ours; Error says that the request was no use, Panic that the CPU manager
// died of it.
type answer struct {
	ID    int64  `json:"id"`
	Error string `json:"error,omitempty"`
	Panic string `json:"panic,omitempty"`

	Protocol     int               `json:"protocol,omitempty"`
	Name         string            `json:"name,omitempty"`
	Release      string            `json:"release,omitempty"`
	Version      string            `json:"version,omitempty"`
	Capabilities []string          `json:"capabilities,omitempty"`
	Facts        map[string]string `json:"facts,omitempty"`

	Refused *refusal `json:"refused,omitempty"`

	Admitted *bool               `json:"admitted,omitempty"`
	Reason   string              `json:"reason,omitempty"`
	Message  string              `json:"message,omitempty"`
	Affinity map[string]hint     `json:"affinity,omitempty"`
	CPUs     *string             `json:"cpus,omitempty"`
	Updates  *[]update           `json:"updates,omitempty"`
	Hints    *map[string]*[]hint `json:"hints,omitempty"`

	Nanoseconds []int64 `json:"nanoseconds,omitempty"`

	// State is the state file's text where it has changed.
	State *json.RawMessage `json:"state_file,omitempty"`
}

// refusal is why a kubelet does not start: while it was being made, or when it started its CPU
// manager.
type refusal struct {
	Stage   string `json:"stage"`
	Message string `json:"message"`
}

// hint has the NUMA nodes of an affinity; none at all is any.
type hint struct {
	NUMA      *[]int `json:"numa"`
	Preferred bool   `json:"preferred"`
}

type update struct {
	PodUID    string `json:"pod_uid"`
	Container string `json:"container"`
	CPUs      string `json:"cpus"`
}

// stateFile is a file's content: text, or {"base64": …} where it is none.
type stateFile struct{ content []byte }

func (s *stateFile) UnmarshalJSON(text []byte) error {
	var plain string
	if err := json.Unmarshal(text, &plain); err == nil {
		s.content = []byte(plain)
		return nil
	}
	var coded struct {
		Base64 []byte `json:"base64"`
	}
	err := json.Unmarshal(text, &coded)
	s.content = coded.Base64
	return err
}

func stateText(content []byte) *json.RawMessage {
	var shown interface{} = string(content)
	if !utf8.Valid(content) {
		shown = map[string]string{"base64": base64.StdEncoding.EncodeToString(content)}
	}
	if content == nil {
		shown = nil
	}
	text, err := json.Marshal(shown)
	if err != nil {
		panic(err)
	}
	raw := json.RawMessage(text)
	return &raw
}
