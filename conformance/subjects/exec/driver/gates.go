package main

import (
	"fmt"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	_ "k8s.io/kubernetes/pkg/features"
)

// knownGates are those that there are; making the list takes longer than many a request.
var knownGates = utilfeature.DefaultMutableFeatureGate.GetAll()

// gates are the feature gates, of which a process has one set: a node's own are set before each of
// its requests.
type gates struct {
	now     string
	touched map[string]bool
}

// apply sets the gates that are wanted, and every other one to its default.
func (g *gates) apply(wanted map[string]bool) error {
	key := fmt.Sprint(wanted) // in the order of their names
	if key == g.now || g.now == "" && len(wanted) == 0 {
		return nil
	}
	if g.touched == nil {
		g.touched = map[string]bool{}
	}
	change := map[string]bool{}
	for name, value := range g.touched {
		change[name] = value
	}
	for name, value := range wanted {
		if name == "AllAlpha" || name == "AllBeta" {
			return fmt.Errorf("feature gate %s: name the gates one by one", name)
		}
		feature := featuregate.Feature(name)
		if _, ok := knownGates[feature]; ok {
			if _, ok := g.touched[name]; !ok {
				g.touched[name] = utilfeature.DefaultFeatureGate.Enabled(feature)
			}
		}
		change[name] = value
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(change); err != nil {
		return err
	}
	g.now = key
	return nil
}

// requireFor refuses policy options whose gate is off, as cmd/kubelet/app/server.go does where there
// is such a gate.
func requireFor(config *settings) error {
	if len(config.CPUManagerPolicyOptions) > 0 && isOff("CPUManagerPolicyOptions") {
		return fmt.Errorf("CPU Manager policy options %v require feature gates %q, %q enabled",
			config.CPUManagerPolicyOptions, "CPUManager", "CPUManagerPolicyOptions")
	}
	options := config.TopologyManagerPolicyOptions
	if len(options) == 0 || !isOff("TopologyManagerPolicyOptions") {
		return nil
	}
	if knownGates["TopologyManager"].PreRelease == featuregate.Beta {
		return fmt.Errorf("topology manager policy options %v require feature gates %q, %q enabled",
			options, "TopologyManager", "TopologyManagerPolicyOptions")
	}
	return fmt.Errorf("topology manager policy options %v require feature gates %q enabled",
		options, "TopologyManagerPolicyOptions")
}

func isOff(gate featuregate.Feature) bool {
	return isKnown(gate) && !utilfeature.DefaultFeatureGate.Enabled(gate)
}

func isKnown(gate featuregate.Feature) bool {
	_, ok := knownGates[gate]
	return ok
}
