// The driver: the kubelet's CPU manager and Topology Manager behind a protocol of JSON lines.
//
// It reads one request a line on standard input, answers each with one line on standard output, and
// ends with the input. The protocol is docs/exec-protocol.md. What belongs here is what surrounds
// the two managers in a kubelet; which CPUs anybody gets is decided in k8s.io/kubernetes alone, of
// which only exported names are used, so that a fork takes its place by one replace directive.
//
// Files: wire.go, what goes over the line; node.go, one node; kubelet.go, what the CPU manager asks
// of its kubelet; gates.go, feature gates; take.go, allocations timed; api_*.go and
// cpusets_*.go, what the releases call differently.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
)

const (
	protocol = 1
	// Longer lines are refused, by the tester as well.
	longestLine = 16 << 20
)

// replaced names what took the place of the released module; it is linked in.
var replaced string

func main() {
	quieten()
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		os.Exit(1)
	}
}

// quieten has klog say errors on standard error, and nothing else: what it says of a topology of
// 384 CPUs takes longer than many an allocation.
func quieten() {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "ERROR", "v": "-1"} {
		if err := flags.Set(name, value); err != nil {
			panic(err)
		}
	}
	klog.SetOutput(io.Discard)
}

func serve(from io.Reader, to io.Writer) error {
	driver := &driver{nodes: map[string]*node{}}
	lines := bufio.NewReaderSize(from, 1<<16)
	out := bufio.NewWriterSize(to, 1<<16)
	for {
		line, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		answer, last := driver.answer(line)
		text, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		if _, err := out.Write(append(text, '\n')); err != nil {
			return err
		}
		// Requests that are here already are answered together.
		if lines.Buffered() == 0 || last {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
	}
}

func readLine(lines *bufio.Reader) ([]byte, error) {
	line, err := lines.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	whole := append([]byte(nil), line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = lines.ReadSlice('\n')
		whole = append(whole, line...)
		if len(whole) > longestLine {
			return nil, fmt.Errorf("a request of more than %d bytes", longestLine)
		}
	}
	return whole, err
}

type driver struct {
	nodes map[string]*node
	gates gates
	place *site // of the last take
}

// answer carries one request out. A panic is the CPU manager's: a kubelet would have died of it.
func (d *driver) answer(line []byte) (reply answer, last bool) {
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: fmt.Sprintf("not a request: %v", err)}, false
	}
	defer func() {
		if cause := recover(); cause != nil {
			reply = answer{ID: asked.ID, Panic: fmt.Sprint(cause)}
			if n, ok := d.nodes[asked.Node]; ok {
				n.abandon()
				reply.State = n.stateChange()
			}
		}
	}()
	reply, err := d.do(&asked)
	if err != nil {
		reply = answer{Error: err.Error()}
	}
	reply.ID = asked.ID
	return reply, asked.Op == "shutdown" && err == nil
}

func (d *driver) do(asked *request) (answer, error) {
	switch asked.Op {
	case "hello":
		return hello(asked)
	case "shutdown":
		for name, n := range d.nodes {
			n.close()
			delete(d.nodes, name)
		}
		return answer{}, nil
	case "take":
		return d.take(asked)
	case "start":
		return d.start(asked)
	}
	n, ok := d.nodes[asked.Node]
	if !ok {
		return answer{}, fmt.Errorf("no node %q was started", asked.Node)
	}
	if asked.Op == "close" {
		n.close()
		delete(d.nodes, asked.Node)
		return answer{}, nil
	}
	if n.cpus == nil {
		return answer{}, fmt.Errorf("%s: the kubelet of node %q does not run", asked.Op, asked.Node)
	}
	if err := d.gates.apply(n.config.FeatureGates); err != nil {
		return answer{}, err
	}
	reply, err := n.do(asked)
	if err != nil {
		return answer{}, err
	}
	reply.State = n.stateChange()
	return reply, nil
}

func (d *driver) start(asked *request) (answer, error) {
	n, ok := d.nodes[asked.Node]
	if !ok {
		made, err := newNode()
		if err != nil {
			return answer{}, err
		}
		n = made
		d.nodes[asked.Node] = n
	}
	if n.cpus != nil {
		return answer{}, fmt.Errorf("start: the kubelet of node %q runs", asked.Node)
	}
	reply, err := n.start(asked, &d.gates)
	if err != nil {
		return answer{}, err
	}
	reply.State = n.stateChange()
	return reply, nil
}

func hello(asked *request) (answer, error) {
	if asked.Protocol != protocol {
		return answer{}, fmt.Errorf("protocol %d is asked for, and this is protocol %d", asked.Protocol, protocol)
	}
	said := version.Get().GitVersion
	facts := map[string]string{"go": runtime.Version()}
	if replaced != "" {
		facts["module"] = replaced
	}
	return answer{
		Protocol:     protocol,
		Name:         "pinproof driver",
		Release:      minorOf(said),
		Version:      said,
		Capabilities: []string{"hints", "resize", "take"},
		Facts:        facts,
	}, nil
}

// minorOf makes 1.36 of v1.36.4.
func minorOf(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return version
	}
	return parts[0] + "." + parts[1]
}
